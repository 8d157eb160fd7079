//! The past that the page's time picker shows: a folder with a history, the folder of a collector, or a service that keeps
//! a history.

use std::path::PathBuf;

use flamelet_collect::FleetPast;
use flamelet_profile::{Budget, Profile};
use flamelet_store::{Query, Reader};
use flamelet_view::{Course, Error, Past, Taken, range_name};
use serde_json::{Value, json};

use crate::profiles::collected::{collected_of, reader_of};
use crate::profiles::history::{Range, history_of};
use crate::profiles::{SourceOptions, fetch};

const MILLISECOND: i64 = 1_000_000;
/// What a service's history has for sure.
const CPU_TYPE: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";

pub(super) fn of(source: &str, options: &SourceOptions) -> Option<Box<dyn Past>> {
    let mut options = options.clone();
    options.range = Range::default();
    if let Some(Ok(part)) = history_of(source, Range::default()) {
        let source = format!("{}?kind={}", part.folder.display(), part.kind());
        return Some(Box::new(FolderPast { path: part.folder.to_owned(), source, options }));
    }
    if let Some(Ok((folder, _))) = collected_of(source, Range::default()) {
        let reader = reader_of(folder).ok()?;
        let symbols = options.symbols.clone();
        let add_names = move |profile: &mut Profile| symbols.apply(profile, &mut Vec::new());
        let past = FleetPast::new(reader, options.limits).with_names(add_names);
        let past = options.which.service.iter().fold(past, |past, service| past.of(service));
        let past = options.which.profile.iter().fold(past, |past, name| past.with_profile(name));
        return Some(Box::new(past));
    }
    let service = ServicePast { address: source.to_owned(), options };
    service.extent().ok()?;
    Some(Box::new(service))
}

/// A folder with a history.
struct FolderPast {
    path: PathBuf,
    /// Names the folder and the kind of windows that are shown.
    source: String,
    options: SourceOptions,
}

impl FolderPast {
    fn read(&self, parts: usize) -> flamelet_profile::Result<Course> {
        let (reader, budget) = (Reader::open(&self.path)?, Budget::new(self.options.limits));
        let Some((from, to)) = reader.span(&budget)? else { return Ok(Course::default()) };
        let query = Query::new("cpu", i64::MIN, i64::MAX);
        let cpu = reader
            .kinds(&query, &budget)?
            .iter()
            .find(|kind| kind.name == "cpu")
            .map_or(0, |kind| kind.values.iter().position(|(name, _)| name == "cpu").unwrap_or(0));
        let mut course = Course::new((from / MILLISECOND, to / MILLISECOND), parts, []);
        let mut each = |time: i64, _: &[(&str, &str)], values: &[i64]| {
            course.add(time / MILLISECOND, values.get(cpu).copied().unwrap_or(0));
        };
        reader.totals(&query, &budget, &mut each)?;
        Ok(course)
    }
}

impl Past for FolderPast {
    fn course(&self, parts: usize) -> Result<Course, Error> {
        self.read(parts).map_err(|error| Error::unreadable(error.to_string()))
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken, Error> {
        taken(&self.source, &self.options, from, to)
    }
}

/// A service that keeps a history, and answers Pyroscope's query calls about it.
struct ServicePast {
    address: String,
    options: SourceOptions,
}

impl ServicePast {
    fn call(&self, method: &str, question: &Value) -> Result<Value, Error> {
        let url = fetch::profile_url(&self.address, None);
        let base = url.as_ref().and_then(|url| url.url.split_once("/debug/pprof/")).map(|(base, _)| base);
        let base = base.ok_or_else(|| Error::unreadable("this is not the URL of a service"))?;
        let url = format!("{base}/querier.v1.QuerierService/{method}");
        let headers = [("Content-Type", "application/json")];
        let answer = fetch::post(&url, &headers, question.to_string().as_bytes(), &self.options.fetch)
            .map_err(|failure| Error::unreadable(failure.to_string()))?;
        let value = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200);
        value.ok_or_else(|| Error::unreadable(format!("{url}: the service answered {}", answer.status)))
    }

    /// Returns the start and the end of what is kept, in milliseconds since 1970.
    fn extent(&self) -> Result<(i64, i64), Error> {
        let stats = self.call("GetProfileStats", &json!({}))?;
        let (from, to) = (number(&stats["oldestProfileTime"]), number(&stats["newestProfileTime"]));
        from.zip(to).ok_or_else(|| Error::unreadable("the service has no history yet"))
    }
}

/// Reads a number that may be written as a text, as 64-bit numbers are in JSON.
fn number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_str()?.parse().ok())
        .or_else(|| value.as_f64().map(|float| float as i64))
}

impl Past for ServicePast {
    fn course(&self, parts: usize) -> Result<Course, Error> {
        let (from, to) = self.extent()?;
        let step = (to - from) as f64 / 1000.0 / parts.clamp(1, 500) as f64;
        let question = json!({
            "profileTypeID": CPU_TYPE, "labelSelector": "{}", "start": from, "end": to, "step": step.max(1.0),
        });
        let answer = self.call("SelectSeries", &question)?;
        let series = answer["series"].as_array().map(Vec::as_slice).unwrap_or_default();
        let points = series.iter().flat_map(|series| series["points"].as_array().into_iter().flatten());
        let points =
            points.filter_map(|point| Some((number(&point["timestamp"])?, number(&point["value"])?)));
        Ok(Course::new((from, to.max(from + 1)), parts.min(500), points.collect::<Vec<_>>()))
    }

    fn range(&self, from: i64, to: i64) -> Result<Taken, Error> {
        taken(&self.address, &self.options, from, to)
    }
}

/// Opens a range, in milliseconds since 1970.
fn taken(source: &str, options: &SourceOptions, from: i64, to: i64) -> Result<Taken, Error> {
    let nanos = |milliseconds: i64| milliseconds.saturating_mul(MILLISECOND);
    let range = Range { from: Some(nanos(from)), to: Some(nanos(to)) };
    let options = SourceOptions { range, ..options.clone() };
    let opened = options.open_one(source, &mut Vec::new());
    let profile = opened.map_err(|failure| Error::unreadable(failure.to_string()))?;
    Ok(Taken { name: range_name(from, to), profile })
}
