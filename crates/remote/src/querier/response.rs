//! Responses, as JSON or protobuf.

use flamelet_profile::Profile;
use flamelet_profile::pprof;
use flamelet_profile::protobuf::MessageWriter;
use serde_json::{Value, json};

use super::Codec;
use crate::flame::Flame;

/// Labels that belong to the answer.
pub(super) type OwnedLabels = Vec<(String, String)>;

/// A kind of profile, by Pyroscope's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProfileType {
    pub(super) name: String,
    pub(super) value: (String, String),
    pub(super) period: (String, String),
}

impl ProfileType {
    /// Returns the id: `process_cpu:cpu:nanoseconds:cpu:nanoseconds`.
    pub(super) fn id(&self) -> String {
        let (kind, unit) = &self.value;
        format!("{}:{kind}:{unit}:{}:{}", self.name, self.period.0, self.period.1)
    }
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimeSeries {
    pub(super) labels: OwnedLabels,
    /// Milliseconds since 1970, and the value.
    pub(super) points: Vec<(i64, f64)>,
}

/// How many windows had a value in a range, over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Heatmap {
    pub(super) labels: OwnedLabels,
    /// Milliseconds since 1970, and for each range of values its least value and how many windows were in it.
    pub(super) slots: Vec<(i64, Vec<(f64, i64)>)>,
}

/// The answer to a call.
pub(super) enum Response {
    ProfileTypes(Vec<ProfileType>),
    Names(Vec<String>),
    LabelSets(Vec<OwnedLabels>),
    Series(Vec<TimeSeries>),
    Heatmap(Vec<Heatmap>),
    Flame(Flame),
    /// With the totals of both sides.
    Difference(Flame, i64, i64),
    Profile(Box<Profile>),
    Stats {
        oldest: i64,
        newest: i64,
        has_data: bool,
    },
}

impl Response {
    pub(super) fn write(&self, codec: Codec) -> Vec<u8> {
        match codec {
            Codec::Json => self.json().to_string().into_bytes(),
            Codec::Proto => self.proto(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::ProfileTypes(types) => {
                let value = |kind: &ProfileType| {
                    json!({
                        "ID": kind.id(), "name": kind.name,
                        "sampleType": kind.value.0, "sampleUnit": kind.value.1,
                        "periodType": kind.period.0, "periodUnit": kind.period.1,
                    })
                };
                json!({ "profileTypes": types.iter().map(value).collect::<Vec<_>>() })
            }
            Self::Names(names) => json!({ "names": names }),
            Self::LabelSets(sets) => {
                let set = |labels: &OwnedLabels| json!({ "labels": json_labels(labels) });
                json!({ "labelsSet": sets.iter().map(set).collect::<Vec<_>>() })
            }
            Self::Series(series) => json!({ "series": series.iter().map(json_series).collect::<Vec<_>>() }),
            Self::Heatmap(series) => json!({ "series": series.iter().map(json_heatmap).collect::<Vec<_>>() }),
            Self::Flame(flame) => json!({ "flamegraph": json_flame(flame) }),
            Self::Difference(flame, left, right) => {
                let mut value = json_flame(flame);
                value["leftTicks"] = json!(left.to_string());
                value["rightTicks"] = json!(right.to_string());
                json!({ "flamegraph": value })
            }
            Self::Profile(profile) => super::pprof_json::json_profile(profile),
            Self::Stats { oldest, newest, has_data } => json!({
                "dataIngested": has_data,
                "oldestProfileTime": oldest.to_string(), "newestProfileTime": newest.to_string(),
            }),
        }
    }

    fn proto(&self) -> Vec<u8> {
        let mut message = MessageWriter::default();
        match self {
            Self::ProfileTypes(types) => {
                types.iter().for_each(|kind| message.message(1, |message| write_type(message, kind)));
            }
            Self::Names(names) => names.iter().for_each(|name| message.bytes(1, name.as_bytes())),
            Self::LabelSets(sets) => {
                sets.iter().for_each(|labels| message.message(2, |message| write_labels(message, labels)));
            }
            Self::Series(series) => {
                series.iter().for_each(|series| message.message(1, |message| write_series(message, series)));
            }
            Self::Heatmap(series) => {
                series.iter().for_each(|series| message.message(1, |message| write_heatmap(message, series)));
            }
            Self::Flame(flame) => message.message(1, |message| write_flame(message, flame)),
            Self::Difference(flame, left, right) => message.message(1, |message| {
                write_flame(message, flame);
                message.int(5, *left);
                message.int(6, *right);
            }),
            Self::Profile(profile) => return pprof::encode(profile),
            Self::Stats { oldest, newest, has_data } => {
                message.bool(1, *has_data);
                message.int(2, *oldest);
                message.int(3, *newest);
            }
        }
        message.into_bytes()
    }
}

fn json_labels(labels: &OwnedLabels) -> Vec<Value> {
    labels.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

fn json_series(series: &TimeSeries) -> Value {
    let point = |&(time, value): &(i64, f64)| json!({ "value": value, "timestamp": time.to_string() });
    json!({ "labels": json_labels(&series.labels), "points": series.points.iter().map(point).collect::<Vec<_>>() })
}

fn json_heatmap(series: &Heatmap) -> Value {
    let slot = |(time, ranges): &(i64, Vec<(f64, i64)>)| {
        let (least, counts): (Vec<f64>, Vec<i64>) = ranges.iter().copied().unzip();
        json!({ "timestamp": time.to_string(), "yMin": least, "counts": counts })
    };
    json!({ "labels": json_labels(&series.labels), "slots": series.slots.iter().map(slot).collect::<Vec<_>>() })
}

fn json_flame(flame: &Flame) -> Value {
    let level =
        |values: &Vec<i64>| json!({ "values": values.iter().map(i64::to_string).collect::<Vec<_>>() });
    json!({
        "names": flame.names,
        "levels": flame.levels.iter().map(level).collect::<Vec<_>>(),
        "total": flame.total.to_string(),
        "maxSelf": flame.max_self.to_string(),
    })
}

fn write_type(message: &mut MessageWriter, kind: &ProfileType) {
    message.bytes(1, kind.id().as_bytes());
    message.bytes(2, kind.name.as_bytes());
    message.bytes(4, kind.value.0.as_bytes());
    message.bytes(5, kind.value.1.as_bytes());
    message.bytes(6, kind.period.0.as_bytes());
    message.bytes(7, kind.period.1.as_bytes());
}

fn write_labels(message: &mut MessageWriter, labels: &OwnedLabels) {
    for (name, value) in labels {
        message.message(1, |message| {
            message.bytes(1, name.as_bytes());
            message.bytes(2, value.as_bytes());
        });
    }
}

fn write_series(message: &mut MessageWriter, series: &TimeSeries) {
    write_labels(message, &series.labels);
    for &(time, value) in &series.points {
        message.message(2, |message| {
            message.fixed64(1, value.to_bits());
            message.int(2, time);
        });
    }
}

fn write_heatmap(message: &mut MessageWriter, series: &Heatmap) {
    write_labels(message, &series.labels);
    for (time, ranges) in &series.slots {
        message.message(2, |message| {
            message.int(1, *time);
            let least: Vec<u64> = ranges.iter().map(|(least, _)| least.to_bits()).collect();
            message.packed_fixed64(2, &least);
            message.packed(3, ranges.iter().map(|&(_, count)| count as u64));
        });
    }
}

fn write_flame(message: &mut MessageWriter, flame: &Flame) {
    flame.names.iter().for_each(|name| message.bytes(1, name.as_bytes()));
    for level in &flame.levels {
        message.message(2, |message| message.packed(1, level.iter().map(|&value| value as u64)));
    }
    message.int(3, flame.total);
    message.int(4, flame.max_self);
}
