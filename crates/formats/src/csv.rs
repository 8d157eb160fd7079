//! A table for spreadsheets and data frames: one line per sample, with its stack as folded text, its labels and its
//! values.

use flamelet_profile::{Label, Profile, Result};

use crate::frames::{FrameTable, value_type};
use crate::output::Output;

/// Writes a table. Its first line names the columns: `stack`, one per label key, one per value.
pub(crate) fn write(profile: &Profile, Output { out, notes, .. }: Output<'_>) -> Result<()> {
    notes.dropped_places(profile, "lines, files and addresses");
    notes.dropped_timeline(profile);
    notes.dropped_comments(profile);
    let keys = label_keys(profile);
    let mut line = String::from("stack");
    for key in &keys {
        push_field(&mut line, key);
    }
    for index in 0..profile.sample_types().len() {
        let (kind, unit) = value_type(profile, index);
        push_field(&mut line, &format!("{kind}/{unit}"));
    }
    writeln!(out, "{line}\r")?;
    let mut table = FrameTable::by_function(profile);
    let (mut frames, mut stack) = (Vec::new(), String::new());
    for sample in profile.samples() {
        table.stack(sample.stack, &mut frames);
        stack.clear();
        for &frame in &frames {
            if !stack.is_empty() {
                stack.push(';');
            }
            stack.push_str(&table.frames()[frame as usize].name);
        }
        line.clear();
        push_text(&mut line, &stack);
        let labels = profile.labels(sample.labels);
        for key in &keys {
            push_field(&mut line, &label_text(profile, labels, key));
        }
        for value in sample.values {
            push_field(&mut line, &value.to_string());
        }
        writeln!(out, "{line}\r")?;
    }
    Ok(())
}

/// Returns the keys of all labels, in order of appearance.
fn label_keys(profile: &Profile) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for sample in profile.samples().filter(|sample| seen.insert(sample.labels)) {
        for label in profile.labels(sample.labels) {
            let key = profile.string(label.key);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// Returns the values of one label of a sample; several values are separated as frames are.
fn label_text(profile: &Profile, labels: &[Label], key: &str) -> String {
    let text = |label: &Label| match profile.string(label.text) {
        "" => label.number.to_string(),
        text => text.to_owned(),
    };
    let values: Vec<String> =
        labels.iter().filter(|label| profile.string(label.key) == key).map(text).collect();
    values.join(";")
}

fn push_field(line: &mut String, text: &str) {
    line.push(',');
    push_text(line, text);
}

/// Appends a field as RFC 4180 specifies: quoted where necessary, with quotes doubled.
fn push_text(line: &mut String, text: &str) {
    if !text.contains([',', '"', '\n', '\r']) {
        line.push_str(text);
        return;
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}
