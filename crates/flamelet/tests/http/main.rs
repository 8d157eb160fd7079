//! The HTTP contract, asked over a real connection of a real axum server.

mod captures;
mod clients;
mod contract;
mod heap;
mod mounting;
mod service;

flamelet::global_allocator!();
