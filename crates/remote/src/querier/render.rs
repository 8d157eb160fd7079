//! `/pyroscope/render` and `/pyroscope/render-diff`.

use std::collections::BTreeMap;

use flamelet_profile::{Error, Result, moment};
use serde_json::{Value, json};

use super::request::Request;
use super::{QueryAnswer, Source, calls, failure};
use crate::flame::{self, Flame};

const MILLISECOND: i64 = 1_000_000;
/// The points of a timeline at most, and its shortest step in seconds, as Pyroscope has them.
const MAX_POINTS: u64 = 1500;
const SHORTEST_STEP: u64 = 15;

/// Answers `/pyroscope/render` (or `render-diff`) with these parameters; `now` is in nanoseconds since 1970.
pub fn render(source: &dyn Source, is_diff: bool, parameters: &[(String, String)], now: i64) -> QueryAnswer {
    let outcome = if is_diff { difference(source, parameters, now) } else { single(source, parameters, now) };
    match outcome {
        Ok(value) => QueryAnswer {
            status: 200,
            content_type: "application/json",
            body: value.to_string().into_bytes(),
        },
        Err(error) => failure(&error),
    }
}

fn first<'a>(parameters: &'a [(String, String)], names: &[&str]) -> Option<&'a str> {
    let found = parameters.iter().find(|(name, value)| names.contains(&&**name) && !value.is_empty());
    found.map(|(_, value)| &**value)
}

/// Reads `query`, `from` and `until`, with a prefix for one side of a difference.
fn request(parameters: &[(String, String)], prefix: &str, now: i64) -> Result<Request> {
    let name_of = |name: &str| match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}{}{}", name[..1].to_uppercase(), &name[1..]),
    };
    let named = |name: &str| first(parameters, &[&*name_of(name)]);
    let query =
        named("query").ok_or_else(|| Error::invalid(format!("'{}' is required", name_of("query"))))?;
    let (type_id, selector) = match query.find('{') {
        Some(at) => query.split_at(at),
        None => (query, ""),
    };
    let time = |name: &str, default: i64| -> Result<i64> {
        Ok(named(name).map(|text| moment::parse(text, now)).transpose()?.unwrap_or(default) / MILLISECOND)
    };
    let max_nodes = first(parameters, &["max-nodes", "maxNodes"]).and_then(|text| text.parse().ok());
    Ok(Request {
        type_id: type_id.to_owned(),
        selectors: vec![selector.to_owned()],
        start: time("from", now - 3600 * 1000 * MILLISECOND)?,
        end: time("until", now)?,
        max_nodes: max_nodes.unwrap_or(0),
        ..Request::default()
    })
}

fn single(source: &dyn Source, parameters: &[(String, String)], now: i64) -> Result<Value> {
    let mut request = request(parameters, "", now)?;
    request.labels.extend(first(parameters, &["groupBy"]).map(str::to_owned));
    let tree = calls::tree(source, &request)?;
    let flame = flame::single(&tree, request.nodes());
    let mut value = flamebearer(&flame, &request, "single");
    add_timelines(source, &request, &mut value)?;
    Ok(value)
}

/// Adds the values over time, and with `groupBy` those of each value of this label.
fn add_timelines(source: &dyn Source, request: &Request, into: &mut Value) -> Result<()> {
    let span = request.span()?;
    let length = span.to.saturating_sub(span.from).unsigned_abs();
    let step = (length / 1000).div_ceil(MAX_POINTS).max(SHORTEST_STEP);
    let points = usize::try_from(length.div_ceil(step * 1000)).unwrap_or(0);
    let mut all = vec![0i64; points];
    let mut groups: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    calls::each_value(source, request, &mut |time, labels, value| {
        let at = time.saturating_sub(span.from).unsigned_abs() / (step * 1000);
        let add = |points: &mut Vec<i64>| {
            let point = usize::try_from(at).ok().and_then(|at| points.get_mut(at));
            point.into_iter().for_each(|sum| *sum = sum.saturating_add(value));
        };
        add(&mut all);
        if !request.labels.is_empty() && groups.len() <= calls::MAX_SERIES {
            // Pyroscope's name for what does not have the label.
            let group = labels.into_iter().next().map_or("*".to_owned(), |(_, value)| value);
            add(groups.entry(group).or_insert_with(|| vec![0; points]));
        }
    })?;
    if groups.len() > calls::MAX_SERIES {
        return Err(calls::too_many("series", calls::MAX_SERIES));
    }
    let timeline = |samples: Vec<i64>| {
        json!({
            "startTime": span.from / 1000, "samples": samples, "durationDelta": step, "watermarks": null,
        })
    };
    into["timeline"] = timeline(all);
    if !request.labels.is_empty() {
        into["groups"] = groups.into_iter().map(|(group, samples)| (group, timeline(samples))).collect();
    }
    Ok(())
}

fn difference(source: &dyn Source, parameters: &[(String, String)], now: i64) -> Result<Value> {
    let (left, right) = (request(parameters, "left", now)?, request(parameters, "right", now)?);
    if left.type_id != right.type_id {
        return Err(Error::invalid("profile types must match"));
    }
    let (a, b) = (calls::tree(source, &left)?, calls::tree(source, &right)?);
    let flame = flame::difference(&a, &b, left.nodes().max(right.nodes()));
    let mut value = flamebearer(&flame, &left, "double");
    value["leftTicks"] = json!(a.nodes[0].total);
    value["rightTicks"] = json!(b.nodes[0].total);
    Ok(value)
}

fn flamebearer(flame: &Flame, request: &Request, format: &str) -> Value {
    let mut parts = request.type_id.split(':').skip(1);
    let (name, unit) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (units, rate) = match name {
        "cpu" => ("samples", 1_000_000_000),
        "inuse_objects" | "alloc_objects" | "goroutine" | "samples" => ("objects", 100),
        _ => (unit, 100),
    };
    json!({
        "version": 1,
        "flamebearer": {
            "names": flame.names, "levels": flame.levels, "numTicks": flame.total, "maxSelf": flame.max_self,
        },
        "metadata": { "format": format, "spyName": "", "sampleRate": rate, "units": units, "name": name },
        "timeline": null, "groups": null, "heatmap": null,
    })
}
