//! flamelet with everything on: locks, tasks, requests, blocked polls, labels, heap and continuous CPU profiles.

use std::sync::OnceLock;

use axum::Router;
use flamelet::{Continuous, Profiler};

flamelet::global_allocator!();
flamelet::lock_profiling!();
flamelet::thread_sampling!();

fn profiler() -> &'static Profiler {
    static PROFILER: OnceLock<Profiler> = OnceLock::new();
    PROFILER.get_or_init(|| {
        let builder = Profiler::builder().name("bench-wait").continuous(Continuous::default());
        builder.start().expect("started")
    })
}

pub(crate) fn run(service: impl Future<Output = ()>) {
    start();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime").block_on(service);
}

pub(crate) fn start() {
    profiler();
}

pub(crate) fn router(router: Router) -> Router {
    router.layer(flamelet::axum::layer(profiler())).merge(flamelet::axum::router(profiler().clone()))
}

pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    flamelet::spawn(future);
}

pub(crate) fn awaiting<F: Future>(_: &'static str, future: F) -> F {
    future
}
