//! `/pyroscope/render` and `/pyroscope/render-diff`.

use flamelet_profile::{Error, Result, moment};
use serde_json::{Value, json};

use super::request::Request;
use super::{QueryAnswer, Source, calls, failure};
use crate::flame::{self, Flame};

const MILLISECOND: i64 = 1_000_000;

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
    let request = request(parameters, "", now)?;
    let tree = calls::tree(source, &request)?;
    let flame = flame::single(&tree, request.nodes());
    let mut value = flamebearer(&flame, &request, "single");
    let seconds = (request.start / 1000, (request.end - request.start).max(0) / 1000);
    value["timeline"] = json!({ "startTime": seconds.0, "samples": [flame.total], "durationDelta": seconds.1, "watermarks": null });
    Ok(value)
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
