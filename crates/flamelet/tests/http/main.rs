//! The HTTP contract, over real connections to a real axum server.

mod captures;
mod clients;
mod contract;
mod grafana;
mod heap;
mod mounting;
mod past;
mod service;

flamelet::global_allocator!();
