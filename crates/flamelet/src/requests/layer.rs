//! The tower layer that makes a task of each request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::anatomy::{ThreadRoute, TimeParts};
use crate::tasks::Task;
use crate::{Profiler, TraceIds};

/// Reads the template of the route from the extensions of a request, where a router has left it.
type FindRoute = fn(&Extensions) -> Option<&str>;

/// A tower layer that watches requests, see the [module](mod@crate::requests). For axum, use `flamelet::axum::layer`.
#[derive(Clone, Debug)]
pub struct RequestLayer {
    profiler: Profiler,
    route: FindRoute,
}

impl RequestLayer {
    /// Returns a layer that counts requests for `profiler`, each under the route that `route` finds in its extensions:
    /// a template such as `/users/{id}`, never the path of the request. Requests without one are counted together.
    pub fn new(profiler: &Profiler, route: fn(&Extensions) -> Option<&str>) -> Self {
        Self { profiler: profiler.clone(), route }
    }
}

impl<S> Layer<S> for RequestLayer {
    type Service = WatchedService<S>;

    fn layer(&self, service: S) -> WatchedService<S> {
        WatchedService { service, layer: self.clone() }
    }
}

/// A service whose requests are watched, see [`RequestLayer`].
#[derive(Clone, Debug)]
pub struct WatchedService<S> {
    service: S,
    layer: RequestLayer,
}

impl<S, B, R> Service<Request<B>> for WatchedService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let name = (self.layer.route)(request.extensions()).unwrap_or("(no route)");
        let requests = &self.layer.profiler.shared().requests;
        let route = requests.route(name, counted_method(request.method()));
        let labels = trace_of(request.headers())
            .map_or_else(|| route.labels.clone(), |ids| route.labels.with(ids.labels()));
        // Handlers may begin their work before they are polled.
        let answering = {
            let _lent = labels.lend();
            self.service.call(request)
        };
        let task = Task::slow_after(route.slow_after(), route.task(), labels, answering);
        Answering { task, route: Some(route) }
    }
}

/// Returns the method that requests are counted under. Whoever sends requests can make up any number of methods, which would
/// take the places of routes.
fn counted_method(method: &Method) -> &str {
    const KNOWN: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "(other)" }
}

/// Returns the trace that a request belongs to, if it says so by exactly one `traceparent` header.
fn trace_of(headers: &HeaderMap) -> Option<TraceIds> {
    static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    let mut found = headers.get_all(&TRACEPARENT).iter();
    let only = found.next().filter(|_| found.next().is_none())?;
    TraceIds::from_traceparent(only.to_str().ok()?)
}

/// The future of a watched request.
#[must_use = "futures do nothing unless polled"]
pub struct Answering<F> {
    task: Task<F>,
    /// The route that the request is not counted for yet.
    route: Option<Arc<ThreadRoute>>,
}

impl<F> std::fmt::Debug for Answering<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answering").field("route", &self.route).finish_non_exhaustive()
    }
}

/// Ends a request without an answer: its handler has panicked, or its client has gone away.
impl<F> Drop for Answering<F> {
    fn drop(&mut self) {
        match self.route.take() {
            None => {}
            Some(route) if self.task.has_panicked() => route.answered(TimeParts::of_task(&self.task), true),
            Some(route) => route.cancelled(),
        }
    }
}

impl<F, R, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        #[allow(unsafe_code, reason = "pinning a field needs it, short of a macro crate")]
        // SAFETY: `task` is pinned whenever `self` is: it is never moved out of, not by `Drop` either, and `Answering` is
        // `Unpin` only if the task is. `route` is never pinned.
        let (mut task, counted_for) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.task), &mut this.route)
        };
        let outcome = task.as_mut().poll(context);
        if let Poll::Ready(answer) = &outcome
            && let Some(route) = counted_for.take()
        {
            let is_error = answer.as_ref().map_or(true, |answer| answer.status().is_server_error());
            route.answered(TimeParts::of_task(&task), is_error);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::task::Waker;

    use super::*;

    struct Answers;

    impl Service<Request<()>> for Answers {
        type Response = Response<()>;
        type Error = Infallible;
        type Future = Ready<Result<Response<()>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            ready(Ok(Response::new(())))
        }
    }

    #[test]
    fn methods_that_a_client_makes_up_do_not_take_the_places_of_routes() {
        let profiler = Profiler::builder().start().expect("started");
        let find = |extensions: &Extensions| extensions.get::<&'static str>().copied();
        let mut service = RequestLayer::new(&profiler, find).layer(Answers);
        let mut ask = |method: &str, route: &'static str| {
            let request = Request::builder().method(method).extension(route).body(()).expect("a request");
            let answering = std::pin::pin!(service.call(request));
            assert!(answering.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        };
        (0..1000).for_each(|number| ask(&format!("MADE-UP-{number}"), "/early"));
        ask("PATCH", "/late");
        let json = profiler.requests_json();
        assert!(json.contains(r#""route": "/late", "method": "PATCH""#), "{json}");
        assert!(json.contains(r#""route": "/early", "method": "(other)""#), "{json}");
    }
}
