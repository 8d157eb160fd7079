//! A profile as the JSON of its protobuf message.

use flamelet_profile::{LabelSetId, LocationId, MappingId, Profile, StackId, ValueType};
use serde_json::{Value, json};

/// Returns a profile as the JSON of `google.v1.Profile`.
pub(super) fn json_profile(profile: &Profile) -> Value {
    let pair = |value: &ValueType| json!({ "type": value.kind.index().to_string(), "unit": value.unit.index().to_string() });
    let samples =
        profile.samples().map(|sample| json_sample(profile, sample.stack, sample.labels, sample.values));
    let mappings = profile.mappings().iter().enumerate().map(|(at, mapping)| {
        json!({
            "id": id(at), "memoryStart": mapping.start.to_string(), "memoryLimit": mapping.limit.to_string(),
            "fileOffset": mapping.offset.to_string(), "filename": mapping.filename.index().to_string(),
            "buildId": mapping.build_id.index().to_string(), "hasFunctions": mapping.symbols.functions,
        })
    });
    let locations = (0..profile.locations().len()).map(|at| json_location(profile, at));
    let functions = profile.functions().iter().enumerate().map(|(at, function)| {
        json!({
            "id": id(at), "name": function.name.index().to_string(),
            "systemName": function.system_name.index().to_string(),
            "filename": function.filename.index().to_string(), "startLine": function.start_line.to_string(),
        })
    });
    json!({
        "sampleType": profile.sample_types().iter().map(pair).collect::<Vec<_>>(),
        "sample": samples.collect::<Vec<_>>(),
        "mapping": mappings.collect::<Vec<_>>(),
        "location": locations.collect::<Vec<_>>(),
        "function": functions.collect::<Vec<_>>(),
        "stringTable": profile.strings().iter().collect::<Vec<_>>(),
        "timeNanos": profile.header.time_nanos.to_string(),
        "durationNanos": profile.header.duration_nanos.to_string(),
        "periodType": profile.header.period_type.as_ref().map(pair),
        "period": profile.header.period.to_string(),
    })
}

/// Ids in a file begin at 1.
fn id(row: usize) -> String {
    (row + 1).to_string()
}

fn json_sample(profile: &Profile, stack: StackId, labels: LabelSetId, values: &[i64]) -> Value {
    let locations = profile.stack(stack).iter().map(|location: &LocationId| id(location.index()));
    let labels = profile.labels(labels).iter().map(|label| {
        json!({
            "key": label.key.index().to_string(), "str": label.text.index().to_string(),
            "num": label.number.to_string(), "numUnit": label.unit.index().to_string(),
        })
    });
    json!({
        "locationId": locations.collect::<Vec<_>>(),
        "value": values.iter().map(i64::to_string).collect::<Vec<_>>(),
        "label": labels.collect::<Vec<_>>(),
    })
}

fn json_location(profile: &Profile, at: usize) -> Value {
    let location = &profile.locations()[at];
    let lines = profile.lines_of(location).iter().map(|line| {
        let function = line.function.map_or("0".to_owned(), |function| id(function.index()));
        json!({ "functionId": function, "line": line.line.to_string() })
    });
    json!({
        "id": id(at), "mappingId": location.mapping.map_or("0".to_owned(), |mapping: MappingId| id(mapping.index())),
        "address": location.address.to_string(), "line": lines.collect::<Vec<_>>(),
    })
}
