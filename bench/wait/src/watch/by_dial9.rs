//! dial9 as its environment variables set it up: `DIAL9_ENABLED=true DIAL9_TRACE_DIR=…`.

use axum::Router;

pub(crate) fn run(service: impl Future<Output = ()>) {
    let attached = dial9::recorder_from_env_with(|builder| {
        builder.worker_threads(2);
    });
    let (_recorder, runtime) = attached.expect("attached");
    runtime.block_on(service);
}

pub(crate) fn start() {}

pub(crate) fn router(router: Router) -> Router {
    router
}

pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    dial9::spawn(future);
}

pub(crate) fn awaiting<F: Future>(_: &'static str, future: F) -> F {
    future
}
