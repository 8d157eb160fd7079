//! The HTTP contract, over real connections to a real axum server.

mod captures;
mod clients;
mod contract;
mod grafana;
mod heap;
mod mounting;
mod past;
#[path = "../support/pprof.rs"]
mod pprof;
mod serve;
mod service;

flamelet::global_allocator!();
