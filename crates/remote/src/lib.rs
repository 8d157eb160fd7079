//! Other systems' protocols, as plain functions between bytes and profiles. The sockets are the callers'.
//!
//! - [`basic`] encodes base64, for basic authorization.
//! - [`querier`] answers the query calls of Pyroscope (`querier.v1.QuerierService`, Connect, JSON and proto), so that
//!   Grafana's Pyroscope data source can point at a service that keeps its own history.
//! - [`receive`] reads what the senders of Pyroscope, Parca and OTLP send.
//! - [`push`] writes what the receivers of Pyroscope, Parca and OTLP take, and reads their answers.
//! - [`read`] asks Pyroscope and Parca for the profiles that they keep.
//! - [`symbols`] sends debug files to Pyroscope and Parca.
//! - [`selector`] reads label selectors, `{service_name="checkout", route=~"/api/.*"}`.

pub mod basic;
mod flame;
mod frame;
mod gzip;
mod label_name;
pub mod push;
pub mod querier;
pub mod read;
pub mod receive;
pub mod selector;
pub mod symbols;
mod tree;

pub use flamelet_profile::{Error, ErrorKind, Result};
