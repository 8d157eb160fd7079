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

/// A field of [`Request`].
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
}

/// A field of a message: its number, its names in JSON, and what it means.
type Field = (u32, [&'static str; 2], RequestField);

const MERGE: &[Field] = &[
    (1, ["profileTypeID", "profile_typeID"], RequestField::TypeId),
    (2, ["labelSelector", "label_selector"], RequestField::Selector),
    (3, ["start", ""], RequestField::Start),
    (4, ["end", ""], RequestField::End),
    (5, ["maxNodes", "max_nodes"], RequestField::MaxNodes),
    (6, ["format", ""], RequestField::Format),
    (7, ["stackTraceSelector", "stack_trace_selector"], RequestField::CallSite),
];

/// Returns the fields of the request of a call.
fn fields_of(method: &str) -> &'static [Field] {
    match method {
        "ProfileTypes" => &[(1, ["start", ""], RequestField::Start), (2, ["end", ""], RequestField::End)],
        "LabelNames" => &[
            (1, ["matchers", ""], RequestField::Selector),
            (2, ["start", ""], RequestField::Start),
            (3, ["end", ""], RequestField::End),
        ],
        "LabelValues" => &[
            (1, ["name", ""], RequestField::Name),
            (2, ["matchers", ""], RequestField::Selector),
            (3, ["start", ""], RequestField::Start),
            (4, ["end", ""], RequestField::End),
        ],
        "Series" => &[
            (1, ["matchers", ""], RequestField::Selector),
            (2, ["labelNames", "label_names"], RequestField::Labels),
            (3, ["start", ""], RequestField::Start),
            (4, ["end", ""], RequestField::End),
        ],
        "SelectMergeStacktraces" => MERGE,
        "SelectMergeProfile" => &[
            (1, ["profileTypeID", "profile_typeID"], RequestField::TypeId),
            (2, ["labelSelector", "label_selector"], RequestField::Selector),
            (3, ["start", ""], RequestField::Start),
            (4, ["end", ""], RequestField::End),
            (5, ["maxNodes", "max_nodes"], RequestField::MaxNodes),
            (6, ["stackTraceSelector", "stack_trace_selector"], RequestField::CallSite),
        ],
        "SelectMergeSpanProfile" => &[
            (1, ["profileTypeID", "profile_typeID"], RequestField::TypeId),
            (2, ["labelSelector", "label_selector"], RequestField::Selector),
            (3, ["spanSelector", "span_selector"], RequestField::Spans),
            (4, ["start", ""], RequestField::Start),
            (5, ["end", ""], RequestField::End),
            (6, ["maxNodes", "max_nodes"], RequestField::MaxNodes),
            (7, ["format", ""], RequestField::Format),
        ],
        "SelectSeries" => &[
            (1, ["profileTypeID", "profile_typeID"], RequestField::TypeId),
            (2, ["labelSelector", "label_selector"], RequestField::Selector),
            (3, ["start", ""], RequestField::Start),
            (4, ["end", ""], RequestField::End),
            (5, ["groupBy", "group_by"], RequestField::Labels),
            (6, ["step", ""], RequestField::Step),
            (7, ["aggregation", ""], RequestField::Aggregation),
            (8, ["stackTraceSelector", "stack_trace_selector"], RequestField::CallSite),
            (9, ["limit", ""], RequestField::Limit),
        ],
        "SelectHeatmap" => &[
            (1, ["profileTypeID", "profile_typeID"], RequestField::TypeId),
            (2, ["labelSelector", "label_selector"], RequestField::Selector),
            (3, ["start", ""], RequestField::Start),
            (4, ["end", ""], RequestField::End),
            (5, ["step", ""], RequestField::Step),
            (6, ["groupBy", "group_by"], RequestField::Labels),
            (9, ["limit", ""], RequestField::Limit),
        ],
        "Diff" => &[(1, ["left", ""], RequestField::Side), (2, ["right", ""], RequestField::Side)],
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

    fn from_proto(fields: &[Field], message: &[u8]) -> Result<Self> {
        let mut request = Self::default();
        let mut all = Fields::new(message);
        while let Some((number, value)) = all.next()? {
            let Some(&(_, _, slot)) = fields.iter().find(|field| field.0 == number) else { continue };
            match (slot, value) {
                (RequestField::Side, FieldValue::Bytes(bytes)) => {
                    request.sides.push(Self::from_proto(MERGE, bytes)?);
                }
                (RequestField::CallSite, FieldValue::Bytes(bytes)) => request.call_site = call_site(bytes)?,
                (RequestField::Step, FieldValue::Fixed64(bits)) => request.step = f64::from_bits(bits),
                (slot, FieldValue::Bytes(bytes)) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| wrong("a text is not UTF-8"))?;
                    request.set_text(slot, text);
                }
                (slot, value) => request.set_number(slot, value.int()?),
            }
        }
        Ok(request)
    }

    fn from_json(fields: &[Field], value: &Value) -> Result<Self> {
        let mut request = Self::default();
        let object = match value {
            Value::Object(object) => object,
            Value::Null => return Ok(request),
            _ => return Err(wrong("it is not an object")),
        };
        for (number, names, slot) in fields {
            let Some(value) = names.iter().find_map(|name| object.get(*name)) else { continue };
            match (slot, value) {
                (_, Value::Null) => {}
                (RequestField::Side, side) => {
                    request.sides.resize(request.sides.len().max(*number as usize), Self::default());
                    request.sides[*number as usize - 1] = Self::from_json(MERGE, side)?;
                }
                (RequestField::CallSite, selector) => {
                    let sites = selector["callSite"].as_array().or_else(|| selector["call_site"].as_array());
                    let names = sites.into_iter().flatten().filter_map(|site| site["name"].as_str());
                    request.call_site = names.map(str::to_owned).collect();
                }
                (RequestField::Step, value) => {
                    request.step = number_of(value).ok_or_else(|| wrong("the step is not a number"))?;
                }
                (slot, Value::Array(texts)) => {
                    texts.iter().filter_map(Value::as_str).for_each(|text| request.set_text(*slot, text));
                }
                (slot, Value::String(text)) if slot.is_text() => request.set_text(*slot, text),
                (slot, value) => request.set_json_number(*slot, value)?,
            }
        }
        Ok(request)
    }

    /// Sets a number; 64-bit numbers are texts in JSON, and enumerations are names or numbers.
    fn set_json_number(&mut self, slot: RequestField, value: &Value) -> Result<()> {
        let names = ["PROFILE_FORMAT_FLAMEGRAPH", "PROFILE_FORMAT_TREE"];
        let number = match value.as_str() {
            Some("TIME_SERIES_AGGREGATION_TYPE_AVERAGE") => 1.0,
            Some(text) if names.contains(&text) => {
                names.iter().position(|name| *name == text).unwrap_or(0) as f64 + 1.0
            }
            Some(text) if text.contains("_TYPE_") || text.contains("_FORMAT_") => 0.0,
            _ => number_of(value).ok_or_else(|| wrong("a number is something else"))?,
        };
        self.set_number(slot, number as i64);
        Ok(())
    }

    fn set_text(&mut self, slot: RequestField, text: &str) {
        let text = text.to_owned();
        match slot {
            RequestField::TypeId => self.type_id = text,
            RequestField::Name => self.name = text,
            RequestField::Selector => self.selectors.push(text),
            RequestField::Labels => self.labels.push(text),
            RequestField::Spans => self.spans.push(text),
            _ => {}
        }
    }

    fn set_number(&mut self, slot: RequestField, number: i64) {
        match slot {
            RequestField::Start => self.start = number,
            RequestField::End => self.end = number,
            RequestField::MaxNodes => self.max_nodes = number,
            RequestField::Format => self.format = number,
            RequestField::Aggregation => self.aggregation = number,
            RequestField::Limit => self.limit = number,
            _ => {}
        }
    }
}

impl RequestField {
    fn is_text(self) -> bool {
        matches!(self, Self::TypeId | Self::Name | Self::Selector | Self::Labels | Self::Spans)
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

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("the request cannot be read: {what}"))
}
