//! What each call answers.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

use flamelet_profile::{Error, ErrorKind, Profile, Result};

use super::request::Request;
use super::response::{Heatmap, OwnedLabels, ProfileType, Response, TimeSeries};
use super::{Labels, Measured, Source, Span};
use crate::flame;
use crate::selector::Selector;
use crate::tree::CallTree;

/// The calls that are answered.
pub const METHODS: &[&str] = &[
    "ProfileTypes",
    "LabelNames",
    "LabelValues",
    "Series",
    "SelectMergeStacktraces",
    "SelectMergeSpanProfile",
    "SelectMergeProfile",
    "SelectSeries",
    "SelectHeatmap",
    "Diff",
    "GetProfileStats",
];

/// Nodes of a flame graph, if the request does not say.
const NODES: usize = 8192;
/// The most points of one series, and the most series.
const MAX_POINTS: i64 = 11_000;
pub(super) const MAX_SERIES: usize = 2000;
/// The most sets of labels that are looked at, and the most values of windows that are added up.
const MAX_LABEL_SETS: usize = 200_000;
const MAX_VALUES: usize = 1_000_000;
/// The most values of stacks below a call site, each of which takes a profile.
const MAX_SITE_VALUES: usize = 500;
/// The ranges of values of a heat map.
const RANGES: usize = 20;
const TREE_FORMAT: i64 = 2;

const PROFILE_TYPE: &str = "__profile_type__";
const SERVICE: &str = "service_name";
/// The labels by which spans and traces are known. As in Pyroscope, they are no labels of series: each has values without
/// end.
const SPAN: &str = "span_id";
const TRACE: &str = "trace_id";

pub(super) fn call(source: &dyn Source, method: &str, request: &Request) -> Result<Response> {
    match method {
        "ProfileTypes" => profile_types(source, request),
        "LabelNames" => label_names(source, request),
        "LabelValues" => label_values(source, request),
        "Series" => label_sets(source, request),
        "SelectMergeStacktraces" | "SelectMergeSpanProfile" => flame_graph(source, request),
        "SelectMergeProfile" => profile(source, request),
        "SelectSeries" => series(source, request),
        "SelectHeatmap" => heatmap(source, request),
        "Diff" => difference(source, request),
        "GetProfileStats" => stats(source),
        _ => Err(Error::new(ErrorKind::Unsupported, "this call of Pyroscope's API is not supported")),
    }
}

/// A value of what is measured, as a request names it.
pub(super) struct Chosen {
    source_name: String,
    /// The column of the value.
    pub(super) value: usize,
    pub(super) kind: ProfileType,
}

fn types_of(measured: &Measured) -> impl Iterator<Item = ProfileType> {
    measured.values.iter().map(|value| ProfileType {
        name: measured.name.clone(),
        value: value.clone(),
        period: measured.period.clone(),
    })
}

impl Request {
    /// Returns the requested time range.
    pub(super) fn span(&self) -> Result<Span> {
        if self.start == 0 || self.end == 0 {
            return Err(Error::invalid("missing time range in the query"));
        }
        if self.start > self.end {
            return Err(Error::invalid("start must be before end"));
        }
        Ok(Span { from: self.start, to: self.end })
    }

    /// Returns the time range of a list; without one, all of it.
    fn span_of_list(&self) -> Result<Span> {
        if self.start == 0 || self.end == 0 {
            return Ok(Span { from: 0, to: i64::MAX / 1_000_000 });
        }
        self.span()
    }

    /// Returns how many nodes a flame graph has at most; a negative number means all of them.
    pub(super) fn nodes(&self) -> usize {
        if self.max_nodes == 0 { NODES } else { usize::try_from(self.max_nodes).unwrap_or(usize::MAX) }
    }
}

/// Finds what the type id of a request names.
pub(super) fn choose(source: &dyn Source, type_id: &str, span: Span) -> Result<Option<Chosen>> {
    let parts: Vec<&str> = type_id.split(':').collect();
    if !(5..=6).contains(&parts.len()) {
        let shown: String = type_id.chars().take(60).collect();
        return Err(Error::invalid(format!(
            "profile-type selection must be of the form \
             <name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>(:delta), got({}): {shown:?}",
            parts.len()
        )));
    }
    // The sixth, `delta`, changes nothing.
    let wanted = parts[..5].join(":");
    for measured in source.measured(span)? {
        for (value, kind) in types_of(&measured).enumerate() {
            if kind.id() == wanted {
                return Ok(Some(Chosen { source_name: measured.source_name.clone(), value, kind }));
            }
        }
    }
    Ok(None)
}

/// Calls `ask` with the part of the source that a selector can match.
fn narrowed<T>(
    source: &dyn Source,
    selector: &Selector,
    ask: impl FnOnce(&dyn Source) -> Result<T>,
) -> Result<T> {
    match selector.equal(SERVICE).and_then(|service| source.only(service)) {
        Some(part) => ask(&*part),
        None => ask(source),
    }
}

/// Returns the value of a label, also of those that Pyroscope adds.
fn label<'a>(name: &str, labels: &'a Labels<'a>, service: &'a str, type_id: &'a str) -> Option<&'a str> {
    let mut parts = type_id.split(':');
    let own = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    match name {
        SERVICE => Some(own(SERVICE).unwrap_or(service)),
        PROFILE_TYPE => Some(type_id),
        "__name__" => parts.next(),
        "__type__" => parts.nth(1),
        "__unit__" => parts.nth(2),
        "__period_type__" => parts.nth(3),
        "__period_unit__" => parts.nth(4),
        _ => own(name),
    }
}

fn profile_types(source: &dyn Source, request: &Request) -> Result<Response> {
    let measured = source.measured(request.span_of_list()?)?;
    Ok(Response::ProfileTypes(measured.iter().flat_map(types_of).collect()))
}

pub(super) fn too_many(what: &str, most: usize) -> Error {
    let message = format!("more than {most} {what}: ask for a shorter time, or select some of them");
    Error::new(ErrorKind::TooLarge, message)
}

/// Calls `each` with all labels of each series that matches.
fn each_series(
    source: &dyn Source,
    request: &Request,
    each: impl FnMut(BTreeMap<String, String>) -> Result<()>,
) -> Result<()> {
    let (span, selector) = (request.span_of_list()?, Selector::parse_all(&request.selectors)?);
    narrowed(source, &selector, |source| each_series_of(source, span, &selector, each))
}

fn each_series_of(
    source: &dyn Source,
    span: Span,
    selector: &Selector,
    mut each: impl FnMut(BTreeMap<String, String>) -> Result<()>,
) -> Result<()> {
    let hashing = RandomState::new();
    for measured in source.measured(span)? {
        let types: Vec<String> = types_of(&measured).map(|kind| kind.id()).collect();
        // The sets that were looked at, by their hashes: of many sets, the sets themselves would take too much memory.
        let (mut sets, mut seen) = (HashSet::new(), HashSet::new());
        let mut outcome = Ok(());
        source.label_sets(&measured.source_name, span, &mut |labels, value| {
            let set: Vec<(&str, &str)> =
                labels.iter().copied().filter(|(name, _)| is_of_series(name)).collect();
            let hash = hashing.hash_one(&set);
            if outcome.is_err() || !seen.insert((hash, value)) {
                return;
            }
            sets.insert(hash);
            outcome = if sets.len() > MAX_LABEL_SETS {
                Err(too_many("sets of labels", MAX_LABEL_SETS))
            } else {
                let own = types.iter().enumerate().filter(|(at, _)| value.is_none_or(|value| value == *at));
                own.map(|(_, type_id)| type_id).try_for_each(|type_id| {
                    let all = all_labels(&set, source.service(), type_id, selector);
                    all.map_or(Ok(()), &mut each)
                })
            };
        })?;
        outcome?;
    }
    Ok(())
}

/// Returns whether samples with different values of a label belong to different series.
fn is_of_series(name: &str) -> bool {
    ![SPAN, TRACE].contains(&name)
}

/// Returns the labels of a series, also those that Pyroscope adds, if it matches.
fn all_labels(
    set: &Labels<'_>,
    service: &str,
    type_id: &str,
    selector: &Selector,
) -> Option<BTreeMap<String, String>> {
    const ADDED: [&str; 7] =
        [SERVICE, PROFILE_TYPE, "__name__", "__type__", "__unit__", "__period_type__", "__period_unit__"];
    if !selector.matches(|name| label(name, set, service, type_id)) {
        return None;
    }
    let added = ADDED.iter().filter_map(|name| Some((*name, label(name, set, service, type_id)?)));
    let all = added.chain(set.iter().copied());
    Some(all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn label_names(source: &dyn Source, request: &Request) -> Result<Response> {
    let mut names = BTreeSet::new();
    each_series(source, request, |labels| {
        names.extend(labels.into_keys());
        Ok(())
    })?;
    Ok(Response::Names(names.into_iter().collect()))
}

fn label_values(source: &dyn Source, request: &Request) -> Result<Response> {
    if request.name.is_empty() {
        return Err(Error::invalid("the name of the label is missing"));
    }
    let mut values = BTreeSet::new();
    each_series(source, request, |mut labels| {
        values.extend(labels.remove(&request.name));
        Ok(())
    })?;
    Ok(Response::Names(values.into_iter().collect()))
}

fn label_sets(source: &dyn Source, request: &Request) -> Result<Response> {
    let mut sets: BTreeSet<OwnedLabels> = BTreeSet::new();
    each_series(source, request, |labels| {
        let is_wanted = |name: &String| request.labels.is_empty() || request.labels.contains(name);
        let wanted: OwnedLabels = labels.into_iter().filter(|(name, _)| is_wanted(name)).collect();
        if !wanted.is_empty() {
            sets.insert(wanted);
        }
        if sets.len() > MAX_SERIES { Err(too_many("series", MAX_SERIES)) } else { Ok(()) }
    })?;
    Ok(Response::LabelSets(sets.into_iter().collect()))
}

/// Returns the profile that a request names, and which of its values.
pub(super) fn select(source: &dyn Source, request: &Request) -> Result<Option<(Profile, usize)>> {
    let (span, selector) = (request.span()?, Selector::parse_all(&request.selectors)?);
    narrowed(source, &selector, |source| select_of(source, request, span, &selector))
}

fn select_of(
    source: &dyn Source,
    request: &Request,
    span: Span,
    selector: &Selector,
) -> Result<Option<(Profile, usize)>> {
    let Some(chosen) = choose(source, &request.type_id, span)? else { return Ok(None) };
    if let Some(wrong) = request.spans.iter().find(|span| !is_span_id(span)) {
        let shown: String = wrong.chars().take(60).collect();
        return Err(Error::invalid(format!(
            "not the id of a span, which has 16 hexadecimal digits: {shown:?}"
        )));
    }
    let type_id = chosen.kind.id();
    let keep = |labels: &Labels<'_>| {
        let is_span = request.spans.is_empty()
            || labels.iter().any(|(name, value)| {
                *name == SPAN && request.spans.iter().any(|span| span.eq_ignore_ascii_case(value))
            });
        is_span && selector.matches(|name| label(name, labels, source.service(), &type_id))
    };
    let profile = source.profile(&chosen.source_name, span, &keep)?;
    Ok(profile.map(|profile| (profile, chosen.value)))
}

fn is_span_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn tree(source: &dyn Source, request: &Request) -> Result<CallTree> {
    if request.format == TREE_FORMAT {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the format TREE is not supported; ask for FLAMEGRAPH",
        ));
    }
    let selected = select(source, request)?;
    Ok(selected
        .map_or_else(CallTree::default, |(profile, value)| CallTree::of(&profile, value, &request.call_site)))
}

fn flame_graph(source: &dyn Source, request: &Request) -> Result<Response> {
    Ok(Response::Flame(flame::single(&tree(source, request)?, request.nodes())))
}

fn difference(source: &dyn Source, request: &Request) -> Result<Response> {
    let [left, right] = &request.sides[..] else {
        return Err(Error::invalid("left and right are missing"));
    };
    let (a, b) = (tree(source, left)?, tree(source, right)?);
    let flame = flame::difference(&a, &b, left.nodes().max(right.nodes()));
    Ok(Response::Difference(flame, a.nodes[0].total, b.nodes[0].total))
}

/// Answers with only the requested values, as Pyroscope does: clients read the first.
fn profile(source: &dyn Source, request: &Request) -> Result<Response> {
    let selected = select(source, request)?.map(|(mut profile, value)| {
        if !request.call_site.is_empty() {
            let rows = CallTree::rows_below(&profile, &request.call_site);
            profile.keep_rows(|row| rows[row]);
        }
        let kind = profile.string(profile.sample_types()[value].kind).to_owned();
        profile.keep_sample_types(|other| other == kind);
        profile
    });
    Ok(Response::Profile(Box::new(selected.unwrap_or_default())))
}

/// Values by their labels and step: the sum, and of how many windows.
type Steps = BTreeMap<OwnedLabels, BTreeMap<i64, Vec<i64>>>;

/// Sums up the values of each window by the labels that the request groups by, in steps: a step has what is in the
/// time before it.
fn steps(source: &dyn Source, request: &Request) -> Result<(i64, Steps)> {
    let selector = Selector::parse_all(&request.selectors)?;
    narrowed(source, &selector, |source| steps_of(source, request))
}

fn steps_of(source: &dyn Source, request: &Request) -> Result<(i64, Steps)> {
    let (span, selector) = (request.span()?, Selector::parse_all(&request.selectors)?);
    let step = (request.step * 1000.0) as i64;
    if step <= 0 {
        return Err(Error::invalid("step must be non-zero"));
    }
    if span.to.saturating_sub(span.from) / step > MAX_POINTS {
        return Err(Error::invalid(format!("more than {MAX_POINTS} steps; make the step longer")));
    }
    let mut steps = Steps::new();
    let Some(chosen) = choose(source, &request.type_id, span)? else { return Ok((step, steps)) };
    let type_id = chosen.kind.id();
    // The first step ends at the start.
    let around = Span { from: span.from.saturating_sub(step), to: span.to };
    let mut windows = Windows::default();
    source.totals(&chosen.source_name, around, &mut |time, labels, values| {
        let value = values.get(chosen.value).copied().unwrap_or(0);
        if value == 0 || !selector.matches(|name| label(name, labels, source.service(), &type_id)) {
            return;
        }
        windows.add(group_of(request, labels, source.service(), &type_id), time, value);
    })?;
    for (group, time, value) in windows.finish()? {
        let number = time.saturating_sub(span.from).div_euclid(step)
            + i64::from(time.saturating_sub(span.from).rem_euclid(step) != 0);
        let at = span.from.saturating_add(number.saturating_mul(step));
        if number >= 0 && at <= span.to {
            steps.entry(group).or_default().entry(at).or_default().push(value);
        }
    }
    if !request.call_site.is_empty() {
        values_below(source, request, &chosen, step, &mut steps)?;
    }
    Ok((step, steps))
}

/// Calls `each` with the time of each window, the labels by which the request groups, and the value.
pub(super) fn each_value(
    source: &dyn Source,
    request: &Request,
    each: &mut dyn FnMut(i64, OwnedLabels, i64),
) -> Result<()> {
    let (span, selector) = (request.span()?, Selector::parse_all(&request.selectors)?);
    narrowed(source, &selector, |source| {
        let Some(chosen) = choose(source, &request.type_id, span)? else { return Ok(()) };
        let (type_id, service) = (chosen.kind.id(), source.service());
        source.totals(&chosen.source_name, span, &mut |time, labels, values| {
            let value = values.get(chosen.value).copied().unwrap_or(0);
            if value != 0 && selector.matches(|name| label(name, labels, service, &type_id)) {
                each(time, group_of(request, labels, service, &type_id), value);
            }
        })
    })
}

fn group_of(request: &Request, labels: &Labels<'_>, service: &str, type_id: &str) -> OwnedLabels {
    let names = request.labels.iter().filter(|name| is_of_series(name));
    let pairs =
        names.filter_map(|name| Some((name.clone(), label(name, labels, service, type_id)?.to_owned())));
    pairs.collect()
}

/// Replaces the values of steps by those of the stacks below the call site that the request names. The sum of a step
/// counts; how many windows it has stays, for averages.
fn values_below(
    source: &dyn Source,
    request: &Request,
    chosen: &Chosen,
    step: i64,
    steps: &mut Steps,
) -> Result<()> {
    if steps.values().map(BTreeMap::len).sum::<usize>() > MAX_SITE_VALUES {
        return Err(too_many("values below a call site", MAX_SITE_VALUES));
    }
    let (selector, type_id) = (Selector::parse_all(&request.selectors)?, chosen.kind.id());
    for (group, times) in steps {
        let keep = |labels: &Labels<'_>| {
            selector.matches(|name| label(name, labels, source.service(), &type_id))
                && group_of(request, labels, source.service(), &type_id) == *group
        };
        for (&at, windows) in times {
            let span = Span { from: at.saturating_sub(step).saturating_add(1), to: at.saturating_add(1) };
            let profile = source.profile(&chosen.source_name, span, &keep)?.unwrap_or_default();
            let tree = CallTree::of(&profile, chosen.value, &request.call_site);
            windows.fill(0);
            windows.iter_mut().take(1).for_each(|value| *value = tree.nodes[0].total);
        }
    }
    Ok(())
}

/// The sums of windows, by labels and time.
#[derive(Default)]
struct Windows {
    groups: BTreeMap<OwnedLabels, BTreeMap<i64, i64>>,
    values: usize,
}

impl Windows {
    /// Adds to a sum; no more when there are too many.
    fn add(&mut self, group: OwnedLabels, time: i64, value: i64) {
        if self.check().is_err() {
            return;
        }
        let sums = self.groups.entry(group).or_default();
        let before = sums.len();
        let sum = sums.entry(time).or_default();
        *sum = sum.saturating_add(value);
        self.values += sums.len() - before;
    }

    fn check(&self) -> Result<()> {
        match () {
            () if self.groups.len() > MAX_SERIES => Err(too_many("series", MAX_SERIES)),
            () if self.values > MAX_VALUES => Err(too_many("values", MAX_VALUES)),
            () => Ok(()),
        }
    }

    fn finish(self) -> Result<impl Iterator<Item = (OwnedLabels, i64, i64)>> {
        self.check()?;
        let of_group = |(group, sums): (OwnedLabels, BTreeMap<i64, i64>)| {
            sums.into_iter().map(move |(time, sum)| (group.clone(), time, sum))
        };
        Ok(self.groups.into_iter().flat_map(of_group))
    }
}

fn series(source: &dyn Source, request: &Request) -> Result<Response> {
    let (_, steps) = steps(source, request)?;
    let value = |windows: &[i64]| {
        let sum: f64 = windows.iter().map(|&value| value as f64).sum();
        if request.aggregation == 1 { sum / windows.len().max(1) as f64 } else { sum }
    };
    let mut series: Vec<TimeSeries> = steps
        .into_iter()
        .map(|(labels, steps)| {
            let points = steps.iter().map(|(&time, windows)| (time, value(windows)));
            TimeSeries { labels, points: points.collect() }
        })
        .collect();
    if let Ok(limit @ 1..) = usize::try_from(request.limit) {
        let total = |series: &TimeSeries| series.points.iter().map(|point| point.1).sum::<f64>();
        series.sort_by(|a, b| total(b).total_cmp(&total(a)));
        series.truncate(limit);
    }
    Ok(Response::Series(series))
}

/// Counts windows by their value.
fn heatmap(source: &dyn Source, request: &Request) -> Result<Response> {
    let (_, steps) = steps(source, request)?;
    let all = || steps.values().flat_map(BTreeMap::values).flatten().copied();
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let width = ((most - least) as f64 / RANGES as f64).max(1.0);
    let range = |value: i64| (((value - least) as f64 / width) as usize).min(RANGES - 1);
    let slot = |windows: &Vec<i64>| {
        let mut counts = [0i64; RANGES];
        windows.iter().for_each(|&value| counts[range(value)] += 1);
        let ranges = counts.iter().enumerate().map(|(at, &count)| (least as f64 + at as f64 * width, count));
        ranges.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    let series = steps.iter().map(|(labels, steps)| Heatmap {
        labels: labels.clone(),
        slots: steps.iter().map(|(&time, windows)| (time, slot(windows))).collect(),
    });
    Ok(Response::Heatmap(series.collect()))
}

fn stats(source: &dyn Source) -> Result<Response> {
    let extent = source.extent()?;
    let (oldest, newest) = extent.map_or((0, 0), |span| (span.from, span.to));
    Ok(Response::Stats { oldest, newest, has_data: extent.is_some() })
}
