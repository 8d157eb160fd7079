//! tokio-console's subscriber.

use axum::Router;

pub(crate) fn run(service: impl Future<Output = ()>) {
    // Its server listens at a free port: no client is connected, as on most days.
    console_subscriber::ConsoleLayer::builder().server_addr(([127, 0, 0, 1], 0)).init();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(service);
}

pub(crate) fn start() {}

pub(crate) fn router(router: Router) -> Router {
    router
}

pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(future);
}

pub(crate) fn awaiting<F: Future>(_: &'static str, future: F) -> F {
    future
}
