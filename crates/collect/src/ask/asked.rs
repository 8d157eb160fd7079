//! What a question is about.

use flamelet_profile::{Budget, Limits, Result};
use flamelet_remote::selector::Selector;

use crate::query::Query;
use crate::reader::Reader;

/// The profiles that questions are about.
pub(super) const CPU: &str = "process_cpu";

/// The services and the range of time that a question is about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The service; all if it is `None`.
    pub service: Option<&'a str>,
    /// Which series of them; all if it is `None`.
    pub select: Option<&'a Selector>,
    /// The start of the range, in nanoseconds since 1970.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// The limits of reading each service.
    pub limits: Limits,
}

impl<'a> Asked<'a> {
    pub(super) fn query(&self, service: &'a str) -> Query<'a> {
        Query { select: self.select, ..Query::new(service, CPU, self.from, self.to) }
    }

    pub(super) fn services(&self, reader: &Reader) -> Result<Vec<String>> {
        match self.service {
            Some(service) => Ok(vec![service.to_owned()]),
            None => reader.services(&Budget::new(self.limits)),
        }
    }
}
