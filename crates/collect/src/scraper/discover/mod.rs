//! Finds targets. Each way is a pure function from the bytes of an answer to the labels of targets; the network is the
//! caller's ([`Outside`]).

pub(crate) mod annotations;
mod dns;
mod files;
mod found;
mod groups;
mod http;
mod kubernetes;
mod srv;

use std::time::Duration;

pub(crate) use dns::{Dns, DnsRecords, Family};
pub(crate) use files::Files;
pub(crate) use groups::target_group;
pub(crate) use http::Http;
pub(crate) use kubernetes::{ApiServer, Kubernetes};

use crate::outside::Outside;
use crate::scraper::labels::LabelSet;

/// How often files are looked at, unless the configuration says more often.
const LOOK_AT_FILES: Duration = Duration::from_secs(5);

/// A place that lists targets, and how often it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetSource {
    pub(crate) kind: SourceKind,
    pub(crate) refresh: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Files(Files),
    Http(Http),
    Dns(Dns),
    Kubernetes(Kubernetes),
}

impl TargetSource {
    /// Asks for the targets that there are now.
    pub(crate) fn find(&self, outside: &dyn Outside) -> Result<Vec<LabelSet>, String> {
        match &self.kind {
            SourceKind::Files(files) => files.find(),
            SourceKind::Http(http) => http.find(outside, self.refresh),
            SourceKind::Dns(dns) => dns.find(outside),
            SourceKind::Kubernetes(kubernetes) => kubernetes.find(outside),
        }
    }

    /// Returns how long to wait before it is asked again.
    pub(crate) fn pause(&self) -> Duration {
        match &self.kind {
            SourceKind::Files(_) => self.refresh.min(LOOK_AT_FILES),
            _ => self.refresh,
        }
    }
}
