//! The past of a fleet, for the viewer.

use std::collections::BTreeMap;
use std::sync::Arc;

use flamelet_profile::{Budget, Error, Limits, Profile, Result, moment};
use flamelet_view::{Course, Past, Taken};

use super::asked::CPU;
use crate::query::Query;
use crate::reader::Reader;
use crate::series::profile_name;

const MILLISECOND: i64 = 1_000_000;

type AddNames = Arc<dyn Fn(&mut Profile) + Send + Sync>;

/// What a viewer shows of the folder of a collector.
#[derive(Clone)]
pub struct FleetPast {
    reader: Reader,
    limits: Limits,
    /// The service that is shown first; without one, the first by name.
    service: Option<String>,
    /// Which profile: `process_cpu`, ….
    profile: String,
    add_names: AddNames,
}

impl FleetPast {
    /// Shows all services; `limits` are for each answer.
    pub fn new(reader: Reader, limits: Limits) -> Self {
        Self { reader, limits, service: None, profile: CPU.to_owned(), add_names: Arc::new(|_| {}) }
    }

    /// Looks up names that the profiles do not have.
    #[must_use]
    pub fn with_names(self, add_names: impl Fn(&mut Profile) + Send + Sync + 'static) -> Self {
        Self { add_names: Arc::new(add_names), ..self }
    }

    /// Shows this service first.
    #[must_use]
    pub fn of(self, service: &str) -> Self {
        Self { service: Some(service.to_owned()), ..self }
    }

    /// Shows another profile than that of the CPU: `heap`, or Pyroscope's name.
    #[must_use]
    pub fn with_profile(self, name: &str) -> Self {
        Self { profile: profile_name(name).to_owned(), ..self }
    }

    fn shown_service(&self) -> Result<String> {
        match &self.service {
            Some(service) => Ok(service.clone()),
            None => {
                let first = self.services()?.into_iter().next();
                first.ok_or_else(|| Error::not_found("there are no profiles yet"))
            }
        }
    }
}

impl Past for FleetPast {
    fn course(&self, parts: usize) -> Result<Course> {
        let query = (i64::MIN, i64::MAX);
        course(&self.reader, &self.shown_service()?, query, parts, self.limits)
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken> {
        let service = self.shown_service()?;
        let nanos = |milliseconds: i64| milliseconds.saturating_mul(MILLISECOND);
        let query = Query::new(&service, &self.profile, nanos(from), nanos(to));
        let (profile, notes) = self.reader.profile(&query, &Budget::new(self.limits))?;
        let shown = |time: i64| moment::format(nanos(time / 1000 * 1000));
        let name = format!("{service}, {} to {}", shown(from), shown(to));
        let mut profile = profile
            .ok_or_else(|| Error::not_found(format!("{name}: there is no {} profile", self.profile)))?;
        (self.add_names)(&mut profile);
        notes.iter().for_each(|note| profile.add_comment(note));
        let name = if notes.is_empty() { name } else { format!("{name} (incomplete: {})", notes.join("; ")) };
        Ok(Taken { name, profile })
    }

    fn services(&self) -> Result<Vec<String>> {
        self.reader.services(&Budget::new(self.limits))
    }

    fn of_service(&self, service: &str) -> Option<Box<dyn Past + '_>> {
        let is_known = self.services().is_ok_and(|services| services.iter().any(|known| known == service));
        is_known.then(|| Box::new(self.clone().of(service)) as Box<dyn Past>)
    }
}

/// Returns the CPU time that a service used over a range, in this number of parts. The range is in nanoseconds since 1970, and
/// cut to where there are profiles.
fn course(reader: &Reader, service: &str, range: (i64, i64), parts: usize, limits: Limits) -> Result<Course> {
    let (points, end) = points(reader, service, range, limits)?;
    let Some((&first, _)) = points.first_key_value() else { return Ok(Course::default()) };
    let last = points.last_key_value().map_or(first, |(&last, _)| last);
    Ok(Course::new((first, end.max(last.saturating_add(1))), parts, points))
}

/// Like [`course`], of the whole range.
pub(crate) fn course_within(
    reader: &Reader,
    service: &str,
    range: (i64, i64),
    parts: usize,
    limits: Limits,
) -> Result<Course> {
    let (points, _) = points(reader, service, range, limits)?;
    Ok(Course::new((range.0.div_euclid(MILLISECOND), range.1.div_euclid(MILLISECOND)), parts, points))
}

/// Returns the CPU time of each moment, and when the last profile ends; times are in milliseconds since 1970.
fn points(
    reader: &Reader,
    service: &str,
    (from, to): (i64, i64),
    limits: Limits,
) -> Result<(BTreeMap<i64, i64>, i64)> {
    let (query, budget) = (Query::new(service, CPU, from, to), Budget::new(limits));
    let mut points: BTreeMap<i64, i64> = BTreeMap::new();
    let mut end = i64::MIN;
    reader.parts(&query, &budget)?.each(&query, &budget, |tables| {
        budget.work(tables.samples.len())?;
        let series = tables.series.iter().filter(|(_, series)| series.name == CPU && series.kind == "cpu");
        let series: std::collections::HashSet<u128> = series.map(|(hash, _)| *hash).collect();
        for row in &tables.samples {
            if !query.wants_time(row.time) || !series.contains(&row.series) {
                continue;
            }
            let time = row.time.div_euclid(MILLISECOND);
            if !points.contains_key(&time) {
                budget.charge(64)?;
            }
            let sum = points.entry(time).or_default();
            *sum = sum.saturating_add(row.value);
            end = end.max(row.time.saturating_add(row.duration.max(0)).div_euclid(MILLISECOND));
        }
        Ok(())
    })?;
    Ok((points, end))
}
