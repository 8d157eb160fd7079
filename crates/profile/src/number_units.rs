//! The units of numeric labels.

use std::collections::BTreeMap;

use crate::{LabelSetId, Profile, StringId};

/// Returns the unit of each numeric label: the one in the file, or else the one its key implies.
pub fn number_units(profile: &Profile) -> BTreeMap<StringId, String> {
    let mut units = BTreeMap::new();
    for row in 0..profile.label_set_count() {
        for label in profile.labels(LabelSetId::from_index(row)).iter().filter(|label| !label.is_text()) {
            let written = profile.string(label.unit);
            let unit = units.entry(label.key).or_insert_with(String::new);
            if unit.is_empty() {
                *unit = written.to_string();
            }
        }
    }
    for (key, unit) in units.iter_mut().filter(|(_, unit)| unit.is_empty()) {
        *unit = match profile.string(*key) {
            "alignment" | "request" => "bytes".into(),
            key => key.into(),
        };
    }
    units
}
