//! The past of a fleet, for the viewer.

use std::collections::BTreeMap;
use std::sync::Arc;

use flamelet_profile::{Budget, Error, Limits, Profile, Result};
use flamelet_remote::selector::Selector;
use flamelet_view::{Course, LabelValues, Past, Taken, range_name};

use super::asked::CPU;
use crate::query::Query;
use crate::reader::Reader;
use crate::series::{Series, profile_name};

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
        let service = self.shown_service()?;
        course(&self.reader, &Query::new(&service, CPU, i64::MIN, i64::MAX), parts, self.limits)
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken> {
        self.selected(from, to, "")
    }

    fn selected(&self, from: i64, to: i64, select: &str) -> Result<Taken> {
        let (service, selector) = (self.shown_service()?, Selector::parse(select)?);
        let nanos = |milliseconds: i64| milliseconds.saturating_mul(MILLISECOND);
        let all = Query::new(&service, &self.profile, nanos(from), nanos(to));
        let query = Query { select: Some(&selector), ..all };
        let (profile, notes) = self.reader.profile(&query, &Budget::new(self.limits))?;
        let name = format!("{service}{select}, {}", range_name(from, to));
        let mut profile = profile
            .ok_or_else(|| Error::not_found(format!("{name}: there is no {} profile", self.profile)))?;
        (self.add_names)(&mut profile);
        notes.iter().for_each(|note| profile.add_comment(note));
        let name = if notes.is_empty() { name } else { format!("{name} (incomplete: {})", notes.join("; ")) };
        Ok(Taken { name, profile })
    }

    fn labels(&self) -> Result<Vec<LabelValues>> {
        let service = self.shown_service()?;
        let query = Query::new(&service, "", i64::MIN, i64::MAX);
        let found = self.reader.labels(&query, &Budget::new(self.limits))?.into_iter();
        Ok(found.map(|(name, values)| LabelValues { name, values: values.into_iter().collect() }).collect())
    }

    fn services(&self) -> Result<Vec<String>> {
        self.reader.services(&Budget::new(self.limits))
    }

    fn of_service(&self, service: &str) -> Option<Box<dyn Past + '_>> {
        let is_known = self.services().is_ok_and(|services| services.iter().any(|known| known == service));
        is_known.then(|| Box::new(self.clone().of(service)) as Box<dyn Past>)
    }
}

/// Parts that are at least this long can be computed from totals by minute: a profile is then off by a minute at most.
const LONG_PART: i64 = 120_000_000_000;

/// Returns the CPU time that was used over the range of a query, cut to where there are profiles, in this number of parts.
fn course(reader: &Reader, query: &Query<'_>, parts: usize, limits: Limits) -> Result<Course> {
    let (points, end) = points(reader, query, parts, limits)?;
    let Some((&first, _)) = points.first_key_value() else { return Ok(Course::default()) };
    let last = points.last_key_value().map_or(first, |(&last, _)| last);
    Ok(Course::new((first, end.max(last.saturating_add(1))), parts, points))
}

/// Like [`course`], of the whole range of a query.
pub(super) fn course_within(
    reader: &Reader,
    query: &Query<'_>,
    parts: usize,
    limits: Limits,
) -> Result<Course> {
    let (points, _) = points(reader, query, parts, limits)?;
    let span = (query.from.div_euclid(MILLISECOND), query.to.div_euclid(MILLISECOND));
    Ok(Course::new(span, parts, points))
}

/// Returns the CPU time of each moment, as precise as this number of parts needs it, and when the last profile ends;
/// times are in milliseconds since 1970.
fn points(
    reader: &Reader,
    query: &Query<'_>,
    parts: usize,
    limits: Limits,
) -> Result<(BTreeMap<i64, i64>, i64)> {
    let budget = Budget::new(limits);
    let mut points: BTreeMap<i64, i64> = BTreeMap::new();
    let mut end = i64::MIN;
    let mut found = reader.parts(query, &budget)?;
    let Some((first, last)) = found.extent() else { return Ok((points, end)) };
    let length = last.min(query.to).saturating_sub(first.max(query.from));
    let is_by_minute = length / i64::try_from(parts.max(1)).unwrap_or(i64::MAX) >= LONG_PART;
    found.each_total(query, &budget, is_by_minute, |series, rows| {
        budget.work(rows.len())?;
        let is_wanted = |series: &Series| series.kind == "cpu" && query.wants(series, None, None);
        let series = series.iter().filter(|(_, series)| is_wanted(series));
        let series: std::collections::HashSet<u128> = series.map(|(hash, _)| *hash).collect();
        for row in rows {
            if !query.wants_time(row.time) || !series.contains(&row.series) {
                continue;
            }
            let time = row.time.div_euclid(MILLISECOND);
            if !points.contains_key(&time) {
                budget.charge(64)?;
            }
            let sum = points.entry(time).or_default();
            *sum = sum.saturating_add(row.value);
            end = end.max(row.time.saturating_add(row.duration).div_euclid(MILLISECOND));
        }
        Ok(())
    })?;
    Ok((points, end))
}
