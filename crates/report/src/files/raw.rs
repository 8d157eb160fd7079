//! `raw`: everything in the profile, as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flamelet_profile::{LocationId, Profile, ValueType};

use crate::info::comment_lines;
use crate::report::Report;

/// Prints the profile as pprof does.
pub fn write_text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let profile = &report.profile;
    header(profile, out)?;
    writeln!(out, "Samples:")?;
    let default = profile.header.default_sample_type;
    let types = profile.sample_types().iter().map(|value_type| {
        let mark = if value_type.kind == default { "[dflt]" } else { "" };
        format!("{}/{}{mark}", profile.string(value_type.kind), profile.string(value_type.unit))
    });
    writeln!(out, "{}", types.collect::<Vec<_>>().join(" "))?;
    for sample in profile.samples() {
        sample.values.iter().try_for_each(|value| write!(out, " {value:>10}"))?;
        write!(out, ": ")?;
        for &location in profile.stack(sample.stack) {
            write!(out, "{} ", location.index() + 1)?;
        }
        writeln!(out)?;
        labels(profile, sample.labels, out)?;
    }
    writeln!(out, "Locations")?;
    for row in 0..profile.locations().len() {
        location(profile, LocationId::from_index(row), out)?;
    }
    writeln!(out, "Mappings")?;
    for (row, mapping) in profile.mappings().iter().enumerate() {
        let known = [
            (mapping.symbols.functions, "[FN]"),
            (mapping.symbols.filenames, "[FL]"),
            (mapping.symbols.line_numbers, "[LN]"),
            (mapping.symbols.inline_frames, "[IN]"),
        ];
        let known: String = known.into_iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| mark).collect();
        writeln!(
            out,
            "{}: {:#x}/{:#x}/{:#x} {} {} {known}",
            row + 1,
            mapping.start,
            mapping.limit,
            mapping.offset,
            profile.string(mapping.filename),
            profile.string(mapping.build_id)
        )?;
    }
    Ok(())
}

fn header(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let header = &profile.header;
    for comment in comment_lines(profile) {
        writeln!(out, "Comment: {comment}")?;
    }
    if !header.doc_url.is_empty() {
        writeln!(out, "Doc: {}", profile.string(header.doc_url))?;
    }
    if let Some(ValueType { kind, unit }) = header.period_type {
        writeln!(out, "PeriodType: {} {}", profile.string(kind), profile.string(unit))?;
    }
    writeln!(out, "Period: {}", header.period)?;
    if header.time_nanos != 0 {
        writeln!(out, "Time: {}", go_time(header.time_nanos))?;
    }
    if header.duration_nanos != 0 {
        writeln!(out, "Duration: {:.4}", go_duration(header.duration_nanos))?;
    }
    Ok(())
}

/// Formats a time as Go prints it: `2026-11-15 03:04:18.162281497 +0000 UTC`.
fn go_time(nanos: i64) -> String {
    let moment = crate::utc::utc(nanos);
    let moment = moment.trim_end_matches(" UTC");
    let fraction = nanos.rem_euclid(1_000_000_000);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:09}") };
    format!("{moment}{} +0000 UTC", fraction.trim_end_matches('0'))
}

/// Formats a duration as Go prints it: `1h2m3.5s`, `2.51s`, `1.5ms`.
fn go_duration(nanos: i64) -> String {
    let (minutes, rest) = (nanos / 60_000_000_000, (nanos % 60_000_000_000) as f64 / 1e9);
    if nanos < 1_000 {
        format!("{nanos}ns")
    } else if nanos < 1_000_000 {
        format!("{}µs", nanos as f64 / 1e3)
    } else if nanos < 1_000_000_000 {
        format!("{}ms", nanos as f64 / 1e6)
    } else if minutes == 0 {
        format!("{rest}s")
    } else if minutes < 60 {
        format!("{minutes}m{rest}s")
    } else {
        format!("{}h{}m{rest}s", minutes / 60, minutes % 60)
    }
}

/// The values of each label, by key.
type Grouped<'a> = BTreeMap<&'a str, Vec<String>>;

fn labels(profile: &Profile, id: flamelet_profile::LabelSetId, out: &mut impl Write) -> io::Result<()> {
    let (mut texts, mut numbers): (Grouped<'_>, Grouped<'_>) = Default::default();
    for label in profile.labels(id) {
        let key = profile.string(label.key);
        if label.is_text() {
            texts.entry(key).or_default().push(profile.string(label.text).into());
        } else if label.number != 0 || !label.unit.is_empty() {
            let text = format!("{} {}", label.number, profile.string(label.unit));
            numbers.entry(key).or_default().push(text.trim_end().to_string());
        }
    }
    for labels in [texts, numbers] {
        let line: Vec<String> =
            labels.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
        if !line.is_empty() {
            writeln!(out, "                {}", line.join(" "))?;
        }
    }
    Ok(())
}

fn location(profile: &Profile, id: LocationId, out: &mut impl Write) -> io::Result<()> {
    let location = profile.location(id);
    let mapping = location.mapping.map_or(String::new(), |id| format!("M={} ", id.index() + 1));
    let folded = if location.is_folded { "[F] " } else { "" };
    let mut start = format!("{:>6}: {:#x} {mapping}{folded}", id.index() + 1, location.address);
    let lines = profile.lines(id);
    if lines.is_empty() {
        writeln!(out, "{start}")?;
    }
    for line in lines {
        let text = line.function.map_or("??".to_string(), |function| {
            let function = profile.function(function);
            let (name, system_name) = (profile.string(function.name), profile.string(function.system_name));
            let mangled = if name == system_name { String::new() } else { format!("({system_name})") };
            let file = profile.string(function.filename);
            format!("{name} {file}:{}:{} s={}{mangled}", line.line, line.column, function.start_line)
        });
        writeln!(out, "{start}{text}")?;
        start = " ".repeat(13);
    }
    Ok(())
}
