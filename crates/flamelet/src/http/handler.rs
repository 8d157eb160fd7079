//! Turns requests into answers.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Method, Request, Response};

use super::answer::{self, Answer, Refusal};
use super::job::{Job, Work, WorkCost};
use super::rules::Rules;
use super::{endpoints, sites};
use crate::Profiler;
use crate::profiler::{Unread, count};
use crate::work::background::{self, Background};

type Authorize = dyn Fn(&Parts) -> bool + Send + Sync;

/// The longest body, a list of addresses, that `/debug/pprof/symbol` accepts.
pub(crate) const MAX_BODY: usize = 4 << 20;

/// Answers requests for profiles, see the [module](crate::http). Cheap to clone.
#[derive(Clone)]
pub struct Handler {
    profiler: Profiler,
    prefix: String,
    authorize: Option<Arc<Authorize>>,
    hosts: Option<Arc<[String]>>,
    timeout: Option<std::time::Duration>,
    /// Whether there is a web viewer next to this handler, so that the page may link to it.
    has_viewer: bool,
}

/// The path as the client sees it, if the server has removed a prefix.
#[derive(Clone)]
pub(crate) struct SeenPath(pub(crate) String);

impl Handler {
    /// Returns a handler that answers every client that can reach the server.
    pub fn new(profiler: Profiler) -> Self {
        Self {
            profiler,
            prefix: String::new(),
            authorize: None,
            hosts: None,
            timeout: None,
            has_viewer: false,
        }
    }

    /// Answers only requests for which `allowed` returns true; others get 403. It is called before anything else is
    /// done. Requests that a browser makes on behalf of another site's page are refused without calling it, see the
    /// [module](crate::http#requests-of-other-sites).
    ///
    /// ```
    /// # fn example(profiler: flamelet::Profiler) {
    /// let handler = flamelet::http::Handler::new(profiler).authorize(|request| {
    ///     request.headers.get("authorization").is_some_and(|token| token == "Bearer secret")
    /// });
    /// # }
    /// ```
    #[must_use]
    pub fn authorize(mut self, allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.authorize = Some(Arc::new(allowed));
        self
    }

    /// Serves below `prefix`: with `/internal`, at `/internal/debug/pprof/`. Not needed inside `axum::Router::nest`,
    /// which removes the prefix before it calls the handler.
    #[must_use]
    pub fn below(mut self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        self.prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("/{prefix}"),
        };
        self
    }

    /// Answers only requests for these `Host` names (with the port, if there is one); others get 403. Use it for a
    /// server that browsers can reach: otherwise another site could point its own host name at the address of this
    /// server and then read its answers (DNS rebinding).
    ///
    /// ```
    /// # fn example(profiler: flamelet::Profiler) {
    /// let handler = flamelet::http::Handler::new(profiler).hosts(["localhost:3000", "127.0.0.1:3000"]);
    /// # }
    /// ```
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, names: impl IntoIterator<Item = H>) -> Self {
        self.hosts = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Tells the handler that something around it, such as a timeout layer or a proxy, ends requests after this time.
    /// A request for a capture that would take that long is then refused at once with the reason, instead of ending in a bare
    /// 408 or 504. The header `x-envoy-expected-rq-timeout-ms`, which Envoy sends, does the same for one request.
    ///
    /// If you can, merge the routes outside the layer instead, where nothing ends a capture early.
    #[must_use]
    pub fn timeout(mut self, time: std::time::Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Answers `request`. Captures run on their own threads, and end when the future is dropped.
    pub fn answer<B: AsRef<[u8]>>(&self, request: Request<B>) -> Answering {
        let (parts, body) = request.into_parts();
        if let Err(refusal) = self.admit(&parts) {
            return Answering { state: AnswerState::Done(Some(self.refuse_unauthorized(&parts, &refusal))) };
        }
        self.answer_admitted(&parts, body.as_ref())
    }

    /// Answers a request that [`Handler::admit`] has admitted, without checking it again.
    pub(crate) fn answer_admitted(&self, parts: &Parts, body: &[u8]) -> Answering {
        let plan = endpoints::plan(&self.rules(), parts, body);
        let job = plan.map(|plan| Job::new(&self.profiler, self.has_viewer, plan));
        let outcome = job.and_then(|job| match job {
            Job::Done(answer) => Ok(AnswerState::Done(Some(answer))),
            Job::Thread { mut head, .. } if parts.method == Method::HEAD => {
                head.body_mut().clear();
                Ok(AnswerState::Done(Some(head)))
            }
            Job::Thread { work, cost, .. } => Ok(AnswerState::Working(self.start(work, cost)?)),
        });
        let mut state = outcome.unwrap_or_else(|refusal| AnswerState::Done(Some(self.refuse(&refusal))));
        if let AnswerState::Done(Some(answer)) = &mut state {
            answer::cut_body_for(&parts.method, answer);
        }
        Answering { state }
    }

    fn rules(&self) -> Rules<'_> {
        Rules { timeout: self.timeout, ..Rules::of(&self.profiler, &self.prefix, self.has_viewer) }
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        count(&self.profiler.shared().counters.refused);
        refusal.answer()
    }

    /// Returns the answer to a request that [`Handler::admit`] refused.
    pub(crate) fn refuse_unauthorized(&self, parts: &Parts, refusal: &Refusal) -> Response<Vec<u8>> {
        let mut answer = self.refuse(refusal);
        answer::cut_body_for(&parts.method, &mut answer);
        answer
    }

    /// Returns the answer to a request whose body could not be read completely, or is longer than `most` bytes.
    #[cfg(feature = "axum")]
    pub(crate) fn refuse_body(&self, most: usize) -> Response<Vec<u8>> {
        let message = format!("the body must be complete and at most {} MiB long", most >> 20);
        self.refuse(&Refusal::new(http::StatusCode::PAYLOAD_TOO_LARGE, message))
    }

    /// Checks that this request passes [`Handler::authorize`] and [`Handler::hosts`], and was not made by another
    /// site's page without the user's knowledge.
    pub(crate) fn admit(&self, parts: &Parts) -> Result<(), Refusal> {
        sites::check(parts, self.hosts.as_deref())?;
        match self.authorize.as_ref().is_none_or(|allowed| allowed(parts)) {
            true => Ok(()),
            false => Err(Refusal::unauthorized()),
        }
    }

    /// Lets the page link to the viewer.
    #[cfg(feature = "view")]
    pub(crate) fn with_viewer(mut self) -> Self {
        self.has_viewer = true;
        self
    }

    pub(crate) fn profiler(&self) -> &Profiler {
        &self.profiler
    }

    /// Returns whether [`Handler::hosts`] was called.
    pub(crate) fn has_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// Returns whether this request's body is needed; other bodies are not read.
    pub(crate) fn wants_body(&self, parts: &Parts) -> bool {
        let endpoint = endpoints::endpoint_of(&self.rules(), parts);
        parts.method == Method::POST && endpoint.is_some_and(|endpoint| endpoint.allows("POST"))
    }

    /// Returns the prefix below which it serves.
    #[cfg(feature = "axum")]
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the refusal of a request while too many answers wait for their clients.
    fn too_many_unread(&self) -> Refusal {
        let most = self.profiler.limits().max_unread >> 10;
        Refusal::busy(format!(
            "{most} KiB of finished profiles wait for slow clients, the limit of this service; \
             try again later"
        ))
    }

    /// Returns the answer as a server sends it, counted until the client has read it.
    pub(crate) fn counted(&self, answer: Answer) -> Response<Unread> {
        let (head, body) = answer.into_parts();
        match self.profiler.unread(body) {
            Some(body) => Response::from_parts(head, body),
            None => self.refuse(&self.too_many_unread()).map(|body| self.profiler.uncounted(body)),
        }
    }

    /// Starts work, unless too much is already running.
    fn start(&self, work: Work, cost: WorkCost) -> Result<Background<Result<Answer, Refusal>>, Refusal> {
        let permit = match cost {
            WorkCost::Nothing => None,
            WorkCost::Capture if self.profiler.is_ending() => {
                return Err(Refusal::busy("this service is shutting down"));
            }
            WorkCost::Capture if self.profiler.has_many_unread() => return Err(self.too_many_unread()),
            WorkCost::Capture => Some(self.profiler.permit().ok_or_else(|| {
                let most = self.profiler.limits().max_captures;
                let message = format!(
                    "{most} captures are already running, the limit of this service; try again later"
                );
                Refusal::busy(message)
            })?),
        };
        let profiler = self.profiler.clone();
        let task = background::spawn("flamelet-http", move |cancel| {
            let _permit = permit;
            profiler.end_with_service(cancel);
            work(cancel)
        });
        Ok(task?)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("profiler", &self.profiler)
            .field("prefix", &self.prefix)
            .field("authorizes", &self.authorize.is_some())
            .finish()
    }
}

impl<B: AsRef<[u8]>> tower_service::Service<Request<B>> for Handler {
    type Response = Response<Vec<u8>>;
    type Error = Infallible;
    type Future = AnsweringService;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> AnsweringService {
        AnsweringService(self.answer(request))
    }
}

/// The future of an answer, see [`Handler::answer`]. Dropping it ends the capture.
#[derive(Debug)]
#[must_use = "the work ends when this is dropped"]
pub struct Answering {
    state: AnswerState,
}

#[derive(Debug)]
enum AnswerState {
    Done(Option<Answer>),
    Working(Background<Result<Answer, Refusal>>),
}

/// The same as a tower service's future, which never fails.
#[derive(Debug)]
#[must_use = "the work ends when this is dropped"]
pub struct AnsweringService(Answering);

impl Future for AnsweringService {
    type Output = Result<Response<Vec<u8>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(Ok)
    }
}

impl Future for Answering {
    type Output = Response<Vec<u8>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        match &mut self.state {
            AnswerState::Done(answer) => Poll::Ready(answer.take().unwrap_or_default()),
            AnswerState::Working(task) => Pin::new(task).poll(context).map(|outcome| {
                let outcome = outcome.map_err(Refusal::from).and_then(|answer| answer);
                outcome.unwrap_or_else(|refusal| refusal.answer())
            }),
        }
    }
}
