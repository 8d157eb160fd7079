//! The services of a fleet, each with the CPU cores that it uses and how that changed.

use flamelet_profile::{Budget, Result};
use serde::Serialize;

use super::asked::Asked;
use super::past::course_within;
use crate::reader::Reader;

const MILLISECOND: i64 = 1_000_000;

/// The answer. Its JSON form is stable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Services {
    /// When the range begins, in nanoseconds since 1970.
    #[serde(serialize_with = "super::json::as_moment")]
    pub(crate) from: i64,
    /// When it ends.
    #[serde(serialize_with = "super::json::as_moment")]
    pub(crate) to: i64,
    /// The cores of all services.
    pub(crate) cores: f64,
    /// The services, those that use most first.
    pub(crate) services: Vec<ServiceCourse>,
}

/// What a service uses over a range.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServiceCourse {
    /// The service.
    pub(crate) service: String,
    /// Its CPU time in seconds.
    pub(crate) cpu_seconds: f64,
    /// Its CPU time divided by the time from the first profile of any service to the end of the range.
    pub(crate) cores: f64,
    /// The CPU time of equal parts of the range, in nanoseconds.
    pub(crate) values: Vec<i64>,
}

impl ServiceCourse {
    fn total(&self) -> i64 {
        self.values.iter().fold(0i64, |sum, value| sum.saturating_add(*value))
    }
}

/// Adds up the CPU time of each service, in this number of parts of the range.
pub(crate) fn services(reader: &Reader, asked: &Asked<'_>, parts: usize) -> Result<Services> {
    let reader = &reader.with_logs(&Budget::new(asked.limits))?;
    let mut services = Vec::new();
    for service in asked.services(reader)? {
        let course = course_within(reader, &asked.query(&service), parts, asked.limits)?;
        services.push(ServiceCourse { service, cpu_seconds: 0.0, cores: 0.0, values: course.values });
    }
    services.sort_by(|a, b| b.total().cmp(&a.total()).then_with(|| a.service.cmp(&b.service)));
    let (from, to) = (asked.from, asked.to);
    let length = to.saturating_sub(from);
    let first = services.iter().filter_map(|service| first_time(&service.values, from, length)).min();
    // Before the first profile there was nothing to measure.
    let wall = first.map_or(length, |first| to.saturating_sub(first)).max(MILLISECOND) as f64;
    for service in &mut services {
        let total = service.total() as f64;
        (service.cpu_seconds, service.cores) = (total / 1e9, total / wall);
    }
    let cores = services.iter().map(|service| service.cores).sum();
    Ok(Services { from, to, cores, services })
}

/// Returns when the first part with CPU time begins.
fn first_time(values: &[i64], from: i64, length: i64) -> Option<i64> {
    let at = values.iter().position(|value| *value > 0)?;
    let part = length / i64::try_from(values.len().max(1)).unwrap_or(1);
    Some(from.saturating_add(part.saturating_mul(i64::try_from(at).unwrap_or(0))))
}
