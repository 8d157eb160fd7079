//! Other systems' protocols, as plain functions between bytes and profiles. The sockets are the callers'.
//!
//! - [`querier`] answers the query calls of Pyroscope (`querier.v1.QuerierService`, Connect, JSON and proto), so that
//!   Grafana's Pyroscope data source can point at a service that keeps its own history.
//! - [`push`] writes what Pyroscope's receiver takes.
//! - [`selector`] reads label selectors, `{service_name="checkout", route=~"/api/.*"}`.

mod flame;
pub mod push;
pub mod querier;
pub mod selector;
mod tree;

pub use flamelet_profile::{Error, ErrorKind, Result};
