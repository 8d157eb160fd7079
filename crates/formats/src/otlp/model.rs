//! The messages of the schema, as far as they are used, with their JSON names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Parses a 64-bit number. In JSON these are text, but readers must accept both forms.
fn number<'de, D: Deserializer<'de>, T: TryFrom<i128>>(from: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Loose {
        Signed(i64),
        Unsigned(u64),
        Text(String),
    }
    let wide = match Loose::deserialize(from)? {
        Loose::Signed(number) => Some(i128::from(number)),
        Loose::Unsigned(number) => Some(i128::from(number)),
        Loose::Text(text) => text.parse().ok(),
    };
    wide.and_then(|wide| T::try_from(wide).ok())
        .ok_or_else(|| serde::de::Error::custom("not a 64-bit number"))
}

fn numbers<'de, D: Deserializer<'de>, T: TryFrom<i128>>(from: D) -> Result<Vec<T>, D::Error> {
    struct One<T>(T);
    impl<'de, T: TryFrom<i128>> Deserialize<'de> for One<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            number(from).map(One)
        }
    }
    Ok(Vec::<One<T>>::deserialize(from)?.into_iter().map(|one| one.0).collect())
}

fn as_text<T: ToString, S: Serializer>(number: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&number.to_string())
}

fn as_texts<T: ToString, S: Serializer>(numbers: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(numbers.iter().map(ToString::to_string))
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires it")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProfilesData {
    pub(super) resource_profiles: Vec<ResourceProfiles>,
    pub(super) dictionary: Dictionary,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResourceProfiles {
    pub(super) resource: Resource,
    pub(super) scope_profiles: Vec<ScopeProfiles>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Resource {
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KeyValue {
    pub(super) key: String,
    pub(super) value: AnyValue,
    /// The key in the dictionary, where OpenTelemetry's collector puts it.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) key_strindex: i32,
}

/// The value of an attribute; only text and whole numbers are kept.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnyValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) string_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bool_value: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) int_value: Option<IntText>,
    /// A text in the dictionary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) string_value_strindex: Option<i32>,
}

/// A 64-bit number that is text in JSON.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct IntText(pub(super) i64);

impl Serialize for IntText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        as_text(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for IntText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        number(from).map(IntText)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ScopeProfiles {
    pub(super) profiles: Vec<OtlpProfile>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OtlpProfile {
    pub(super) sample_type: ValueType,
    pub(super) samples: Vec<Sample>,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) time_unix_nano: u64,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) duration_nano: u64,
    pub(super) period_type: ValueType,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) period: i64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ValueType {
    pub(super) type_strindex: i32,
    pub(super) unit_strindex: i32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Sample {
    pub(super) stack_index: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attribute_indices: Vec<i32>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) link_index: i32,
    #[serde(
        deserialize_with = "numbers",
        serialize_with = "as_texts",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) values: Vec<i64>,
    #[serde(
        deserialize_with = "numbers",
        serialize_with = "as_texts",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(super) timestamps_unix_nano: Vec<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Dictionary {
    pub(super) mapping_table: Vec<Mapping>,
    pub(super) location_table: Vec<Location>,
    pub(super) function_table: Vec<Function>,
    /// Links to spans; entry 0 is none.
    pub(super) link_table: Vec<Link>,
    pub(super) string_table: Vec<String>,
    pub(super) attribute_table: Vec<Attribute>,
    pub(super) stack_table: Vec<Stack>,
}

/// A span, as hexadecimal digits, which is how OTLP writes ids in JSON.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Link {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) trace_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) span_id: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Mapping {
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) memory_start: u64,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) memory_limit: u64,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) file_offset: u64,
    pub(super) filename_strindex: i32,
    pub(super) attribute_indices: Vec<i32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Stack {
    pub(super) location_indices: Vec<i32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Location {
    pub(super) mapping_index: i32,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) address: u64,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Line {
    pub(super) function_index: i32,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) line: i64,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) column: i64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Function {
    pub(super) name_strindex: i32,
    pub(super) system_name_strindex: i32,
    pub(super) filename_strindex: i32,
    #[serde(deserialize_with = "number", serialize_with = "as_text")]
    pub(super) start_line: i64,
}

/// `KeyValueAndUnit`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Attribute {
    pub(super) key_strindex: i32,
    pub(super) value: AnyValue,
    pub(super) unit_strindex: i32,
}
