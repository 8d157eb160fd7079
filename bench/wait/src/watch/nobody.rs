//! Nothing watches.

use axum::Router;

/// Runs the service on two threads.
pub(crate) fn run(service: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(service);
}

/// Starts to watch what needs no runtime.
pub(crate) fn start() {}

/// Watches requests.
pub(crate) fn router(router: Router) -> Router {
    router
}

/// Starts a task.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(future);
}

/// Names an await, where that is needed.
pub(crate) fn awaiting<F: Future>(_: &'static str, future: F) -> F {
    future
}
