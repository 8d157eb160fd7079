//! Requests, from JSON or protobuf.

use flamelet_profile::protobuf::{FieldValue, Fields};
use flamelet_profile::{Error, ErrorKind, Result};
use serde_json::Value;

use super::Codec;

/// The parameters of any of the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Request {
    pub(super) type_id: String,
    pub(super) selectors: Vec<String>,
    /// The label whose values are requested.
    pub(super) name: String,
    /// The labels to return, or to group by.
    pub(super) labels: Vec<String>,
    pub(super) spans: Vec<String>,
    /// Milliseconds since 1970.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) max_nodes: i64,
    pub(super) format: i64,
    /// Seconds.
    pub(super) step: f64,
    pub(super) aggregation: i64,
    pub(super) limit: i64,
    pub(super) call_site: Vec<String>,
    /// The two sides of a difference.
    pub(super) sides: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestField {
    TypeId,
    Selector,
    Name,
    Labels,
    Spans,
    Start,
    End,
    MaxNodes,
    Format,
    Step,
    Aggregation,
    Limit,
    CallSite,
    Side,
    /// Changes nothing here.
    Ignored,
}

use RequestField::{
    Aggregation, CallSite, End, Format, Ignored, Labels, Limit, MaxNodes, Name, Selector, Side, Spans, Start,
    Step, TypeId,
};

const MERGE: &[RequestField] = &[TypeId, Selector, Start, End, MaxNodes, Format, CallSite];

/// Returns the fields of the request of a call, in the order of their numbers, which begin at 1.
fn fields_of(method: &str) -> &'static [RequestField] {
    match method {
        "ProfileTypes" => &[Start, End],
        "LabelNames" => &[Selector, Start, End],
        "LabelValues" => &[Name, Selector, Start, End],
        "Series" => &[Selector, Labels, Start, End],
        "SelectMergeStacktraces" => MERGE,
        "SelectMergeProfile" => &[TypeId, Selector, Start, End, MaxNodes, CallSite],
        "SelectMergeSpanProfile" => &[TypeId, Selector, Spans, Start, End, MaxNodes, Format],
        "SelectSeries" => &[TypeId, Selector, Start, End, Labels, Step, Aggregation, CallSite, Limit],
        "SelectHeatmap" => &[TypeId, Selector, Start, End, Step, Labels, Ignored, Ignored, Limit],
        "Diff" => &[Side, Side],
        _ => &[],
    }
}

impl Request {
    pub(super) fn read(method: &str, codec: Codec, body: &[u8]) -> Result<Self> {
        match codec {
            Codec::Proto => Self::from_proto(fields_of(method), body),
            Codec::Json => {
                let value = if body.trim_ascii().is_empty() { Value::Null } else { parse(body)? };
                Self::from_json(fields_of(method), &value)
            }
        }
    }

    fn from_proto(fields: &[RequestField], message: &[u8]) -> Result<Self> {
        let mut request = Self::default();
        let mut all = Fields::new(message);
        while let Some((number, value)) = all.next()? {
            let Some(&field) = fields.get(number as usize - 1) else { continue };
            match (field, value) {
                (Side, FieldValue::Bytes(bytes)) => {
                    request.sides.push(Self::from_proto(MERGE, bytes)?);
                }
                (CallSite, FieldValue::Bytes(bytes)) => request.call_site = call_site(bytes)?,
                (Step, FieldValue::Fixed64(bits)) => request.step = f64::from_bits(bits),
                (_, FieldValue::Bytes(bytes)) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| wrong("a text is not UTF-8"))?;
                    request.set_text(field, text);
                }
                _ => request.set_number(field, value.int()?),
            }
        }
        Ok(request)
    }

    fn from_json(fields: &[RequestField], value: &Value) -> Result<Self> {
        let mut request = Self::default();
        let object = match value {
            Value::Object(object) => object,
            Value::Null => return Ok(request),
            _ => return Err(wrong("it is not an object")),
        };
        for (at, &field) in fields.iter().enumerate() {
            let Some(value) = field.names(at).iter().find_map(|name| object.get(*name)) else { continue };
            match (field, value) {
                (_, Value::Null) => {}
                (Side, side) => {
                    request.sides.resize(request.sides.len().max(at + 1), Self::default());
                    request.sides[at] = Self::from_json(MERGE, side)?;
                }
                (CallSite, selector) => {
                    let sites = selector["callSite"].as_array().or_else(|| selector["call_site"].as_array());
                    let names = sites.into_iter().flatten().filter_map(|site| site["name"].as_str());
                    request.call_site = names.map(str::to_owned).collect();
                }
                (Step, value) => {
                    request.step = number_of(value).ok_or_else(|| wrong("the step is not a number"))?;
                }
                (_, Value::String(text)) if field.is_text() => request.set_text(field, text),
                (_, Value::Array(texts)) if field.is_text() => {
                    for text in texts {
                        request.set_text(field, text.as_str().ok_or_else(|| no_text(field, at))?);
                    }
                }
                _ if field.is_text() => return Err(no_text(field, at)),
                _ => request.set_json_number(field, value)?,
            }
        }
        Ok(request)
    }

    /// Sets a number; 64-bit numbers are texts in JSON, and enumerations are names or numbers.
    fn set_json_number(&mut self, field: RequestField, value: &Value) -> Result<()> {
        let names = ["PROFILE_FORMAT_FLAMEGRAPH", "PROFILE_FORMAT_TREE"];
        let number = match value.as_str() {
            Some("TIME_SERIES_AGGREGATION_TYPE_AVERAGE") => 1.0,
            Some(text) if names.contains(&text) => {
                names.iter().position(|name| *name == text).unwrap_or(0) as f64 + 1.0
            }
            Some(text) if text.contains("_TYPE_") || text.contains("_FORMAT_") => 0.0,
            _ => number_of(value).ok_or_else(|| wrong("a number is something else"))?,
        };
        self.set_number(field, number as i64);
        Ok(())
    }

    fn set_text(&mut self, field: RequestField, text: &str) {
        let text = text.to_owned();
        match field {
            TypeId => self.type_id = text,
            Name => self.name = text,
            Selector => self.selectors.push(text),
            Labels => self.labels.push(text),
            Spans => self.spans.push(text),
            _ => {}
        }
    }

    fn set_number(&mut self, field: RequestField, number: i64) {
        match field {
            Start => self.start = number,
            End => self.end = number,
            MaxNodes => self.max_nodes = number,
            Format => self.format = number,
            Aggregation => self.aggregation = number,
            Limit => self.limit = number,
            _ => {}
        }
    }
}

impl RequestField {
    fn is_text(self) -> bool {
        matches!(self, TypeId | Name | Selector | Labels | Spans)
    }

    /// Returns the names that the field may have in JSON; of the two sides, that of the one at this place.
    fn names(self, at: usize) -> &'static [&'static str] {
        match self {
            TypeId => &["profileTypeID", "profile_typeID"],
            Selector => &["labelSelector", "label_selector", "matchers"],
            Name => &["name"],
            Labels => &["labelNames", "label_names", "groupBy", "group_by"],
            Spans => &["spanSelector", "span_selector"],
            Start => &["start"],
            End => &["end"],
            MaxNodes => &["maxNodes", "max_nodes"],
            Format => &["format"],
            Step => &["step"],
            Aggregation => &["aggregation"],
            Limit => &["limit"],
            CallSite => &["stackTraceSelector", "stack_trace_selector"],
            Side if at == 0 => &["left"],
            Side => &["right"],
            Ignored => &[],
        }
    }
}

/// Reads a number, which may be written as a text.
fn number_of(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Reads the names of a `StackTraceSelector`.
fn call_site(message: &[u8]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number != 1 {
            continue;
        }
        let mut location = Fields::new(value.bytes()?);
        while let Some((number, value)) = location.next()? {
            if number == 1 {
                names.push(String::from_utf8_lossy(value.bytes()?).into_owned());
            }
        }
    }
    Ok(names)
}

fn parse(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| wrong(&error.to_string()))
}

fn no_text(field: RequestField, at: usize) -> Error {
    wrong(&format!("{} is not a text", field.names(at).first().unwrap_or(&"a parameter")))
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("the request cannot be read: {what}"))
}
