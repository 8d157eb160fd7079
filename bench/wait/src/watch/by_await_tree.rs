//! await-tree: requests and tasks are roots, and each await is named.

use std::sync::OnceLock;

use await_tree::{Config, InstrumentAwait, Instrumented, Registry};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::new(Config::default()))
}

pub(crate) fn run(service: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(service);
}

pub(crate) fn start() {}

pub(crate) fn router(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        registry().register_anonymous("request").instrument(next.run(request)).await
    }))
}

pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(registry().register_anonymous("render").instrument(future));
}

pub(crate) fn awaiting<F: Future>(name: &'static str, future: F) -> Instrumented<F> {
    future.instrument_await(name)
}
