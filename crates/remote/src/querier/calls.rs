//! What each call answers.

use std::collections::{BTreeMap, BTreeSet};

use flamelet_profile::{Error, ErrorKind, Profile, Result};

use super::request::Request;
use super::response::{Heatmap, OwnedLabels, ProfileType, Response, Series};
use super::{Labels, Measured, Source, Span};
use crate::flame;
use crate::selector::Selector;
use crate::tree::Tree;

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

/// Nodes of a flame graph, if the request does not say, and at most.
const NODES: i64 = 8192;
const MAX_NODES: i64 = 100_000;
/// The most points of one series, and the most series.
const MAX_POINTS: i64 = 11_000;
const MAX_SERIES: usize = 2000;
/// The ranges of values of a heat map.
const RANGES: usize = 20;
const TREE_FORMAT: i64 = 2;

const PROFILE_TYPE: &str = "__profile_type__";
const SERVICE: &str = "service_name";
/// The label by which spans are known.
const SPAN: &str = "span_id";

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
        _ => Err(Error::new(ErrorKind::Unsupported, "this call of Pyroscope is not answered here")),
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
    /// Returns the time that is asked for; without one, all of it.
    fn span(&self) -> Result<Span> {
        if self.start == 0 && self.end == 0 {
            return Ok(Span { from: 0, to: i64::MAX / 1_000_000 });
        }
        if self.start > self.end {
            return Err(Error::invalid("start must be before end"));
        }
        Ok(Span { from: self.start, to: self.end })
    }

    fn nodes(&self) -> usize {
        let most = if self.max_nodes <= 0 { NODES } else { self.max_nodes.min(MAX_NODES) };
        most as usize
    }
}

/// Finds what the type id of a request names.
pub(super) fn choose(source: &dyn Source, type_id: &str, span: Span) -> Result<Option<Chosen>> {
    if type_id.split(':').count() < 5 {
        let shown: String = type_id.chars().take(60).collect();
        return Err(Error::invalid(format!(
            "profile-type selection must be of the form <name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>, \
             not {shown:?}"
        )));
    }
    for measured in source.measured(span)? {
        for (value, kind) in types_of(&measured).enumerate() {
            if kind.id() == type_id.trim_end_matches(":delta") {
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
    let measured = source.measured(request.span()?)?;
    Ok(Response::ProfileTypes(measured.iter().flat_map(types_of).collect()))
}

/// Calls `each` with all labels of each series that matches.
fn each_series(
    source: &dyn Source,
    request: &Request,
    each: impl FnMut(&BTreeMap<String, String>),
) -> Result<()> {
    let (span, selector) = (request.span()?, Selector::parse_all(&request.selectors)?);
    narrowed(source, &selector, |source| each_series_of(source, span, &selector, each))
}

fn each_series_of(
    source: &dyn Source,
    span: Span,
    selector: &Selector,
    mut each: impl FnMut(&BTreeMap<String, String>),
) -> Result<()> {
    for measured in source.measured(span)? {
        let mut seen: BTreeSet<OwnedLabels> = BTreeSet::new();
        source.label_sets(&measured.source_name, span, &mut |labels| {
            if seen.len() < MAX_SERIES {
                seen.insert(
                    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
                );
            }
        })?;
        for kind in types_of(&measured) {
            let type_id = kind.id();
            for set in &seen {
                let pairs: Vec<(&str, &str)> = set.iter().map(|(name, value)| (&**name, &**value)).collect();
                let find = |name: &str| label(name, &pairs, source.service(), &type_id).map(str::to_owned);
                if selector.matches(|name| label(name, &pairs, source.service(), &type_id)) {
                    let added = [
                        SERVICE,
                        PROFILE_TYPE,
                        "__name__",
                        "__type__",
                        "__unit__",
                        "__period_type__",
                        "__period_unit__",
                    ];
                    let added = added.iter().filter_map(|name| Some(((*name).to_owned(), find(name)?)));
                    each(&added.chain(set.iter().cloned()).collect());
                }
            }
        }
    }
    Ok(())
}

fn label_names(source: &dyn Source, request: &Request) -> Result<Response> {
    let mut names = BTreeSet::new();
    each_series(source, request, |labels| names.extend(labels.keys().cloned()))?;
    Ok(Response::Names(names.into_iter().collect()))
}

fn label_values(source: &dyn Source, request: &Request) -> Result<Response> {
    if request.name.is_empty() {
        return Err(Error::invalid("the name of the label is missing"));
    }
    let mut values = BTreeSet::new();
    each_series(source, request, |labels| values.extend(labels.get(&request.name).cloned()))?;
    Ok(Response::Names(values.into_iter().collect()))
}

fn label_sets(source: &dyn Source, request: &Request) -> Result<Response> {
    let mut sets: BTreeSet<OwnedLabels> = BTreeSet::new();
    each_series(source, request, |labels| {
        let wanted =
            labels.iter().filter(|(name, _)| request.labels.is_empty() || request.labels.contains(name));
        sets.insert(wanted.map(|(name, value)| (name.clone(), value.clone())).collect());
    })?;
    Ok(Response::LabelSets(sets.into_iter().filter(|set| !set.is_empty()).collect()))
}

/// Returns the profile that a request asks for, and which of its values.
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
    let type_id = chosen.kind.id();
    let keep = |labels: &Labels<'_>| {
        let is_span = request.spans.is_empty()
            || labels
                .iter()
                .any(|(name, value)| *name == SPAN && request.spans.iter().any(|span| span == value));
        is_span && selector.matches(|name| label(name, labels, source.service(), &type_id))
    };
    let profile = source.profile(&chosen.source_name, span, &keep)?;
    Ok(profile.map(|profile| (profile, chosen.value)))
}

pub(super) fn tree(source: &dyn Source, request: &Request) -> Result<Tree> {
    if request.format == TREE_FORMAT {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the format TREE is not written here; ask for FLAMEGRAPH",
        ));
    }
    let selected = select(source, request)?;
    Ok(selected.map_or_else(Tree::default, |(profile, value)| Tree::of(&profile, value, &request.call_site)))
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

fn profile(source: &dyn Source, request: &Request) -> Result<Response> {
    let selected = select(source, request)?;
    Ok(Response::Profile(Box::new(selected.map(|(profile, _)| profile).unwrap_or_default())))
}

/// Values by their labels and step: the sum, and of how many windows.
type Steps = BTreeMap<OwnedLabels, BTreeMap<i64, Vec<i64>>>;

/// Sums up the values of each window by the labels that the request groups by, in steps: a step has what lies in the
/// time before it.
fn steps(source: &dyn Source, request: &Request) -> Result<(i64, Steps)> {
    let selector = Selector::parse_all(&request.selectors)?;
    narrowed(source, &selector, |source| steps_of(source, request))
}

fn steps_of(source: &dyn Source, request: &Request) -> Result<(i64, Steps)> {
    let (span, selector) = (request.span()?, Selector::parse_all(&request.selectors)?);
    let step = (request.step * 1000.0) as i64;
    if step <= 0 {
        return Err(Error::invalid("step must be above 0"));
    }
    if span.to.saturating_sub(span.from) / step > MAX_POINTS {
        return Err(Error::invalid(format!("more than {MAX_POINTS} steps; make the step longer")));
    }
    let mut steps = Steps::new();
    let Some(chosen) = choose(source, &request.type_id, span)? else { return Ok((step, steps)) };
    let type_id = chosen.kind.id();
    // The first step ends at the start.
    let around = Span { from: span.from.saturating_sub(step), to: span.to };
    let mut windows: BTreeMap<(OwnedLabels, i64), i64> = BTreeMap::new();
    source.totals(&chosen.source_name, around, &mut |time, labels, values| {
        let value = values.get(chosen.value).copied().unwrap_or(0);
        if value == 0 || !selector.matches(|name| label(name, labels, source.service(), &type_id)) {
            return;
        }
        let group = request.labels.iter().filter_map(|name| {
            let value = label(name, labels, source.service(), &type_id)?;
            Some((name.clone(), value.to_owned()))
        });
        let sum = windows.entry((group.collect(), time)).or_default();
        *sum = sum.saturating_add(value);
    })?;
    for ((group, time), value) in windows {
        let number = time.saturating_sub(span.from).div_euclid(step)
            + i64::from(time.saturating_sub(span.from).rem_euclid(step) != 0);
        let at = span.from.saturating_add(number.saturating_mul(step));
        if number >= 0 && at <= span.to && (steps.len() < MAX_SERIES || steps.contains_key(&group)) {
            steps.entry(group).or_default().entry(at).or_default().push(value);
        }
    }
    Ok((step, steps))
}

fn series(source: &dyn Source, request: &Request) -> Result<Response> {
    let (_, steps) = steps(source, request)?;
    let value = |windows: &[i64]| {
        let sum: f64 = windows.iter().map(|&value| value as f64).sum();
        if request.aggregation == 1 { sum / windows.len().max(1) as f64 } else { sum }
    };
    let mut series: Vec<Series> = steps
        .into_iter()
        .map(|(labels, steps)| {
            let points = steps.iter().map(|(&time, windows)| (time, value(windows)));
            Series { labels, points: points.collect() }
        })
        .collect();
    if let Ok(limit @ 1..) = usize::try_from(request.limit) {
        let total = |series: &Series| series.points.iter().map(|point| point.1).sum::<f64>();
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
