//! `debug=1`: profiles as text, in Go's formats, which `go tool pprof` reads back.

use std::fmt::Write;

use flamelet_capture::profile::{LocationId, Profile, Sample, sort_rows_by_key};

/// Returns the text form of a profile called `name`: Go's for the heap, for contention, and for counts.
pub(super) fn text(profile: &Profile, name: &str) -> String {
    let mut out = String::new();
    match profile.sample_types().len() {
        4 => heap_heading(profile, &mut out),
        2 if is_contention(name) => out.push_str("--- contention:\ncycles/second=1000000000\n"),
        _ => {
            let _ = writeln!(out, "{name} profile: total {}", profile.total(0));
        }
    }
    for sample in heaviest_first(profile) {
        write_sample(profile, &sample, name, &mut out);
    }
    for comment in profile.comments() {
        let _ = writeln!(out, "# {comment}");
    }
    if let Some(quality) = &profile.quality {
        for line in quality.comment_lines(profile.string(quality.engine)) {
            let _ = writeln!(out, "# {line}");
        }
    }
    out
}

/// Returns whether Go writes the profile as contention: delays before counts.
fn is_contention(name: &str) -> bool {
    matches!(name, "block" | "mutex" | "await" | "blocked")
}

/// Values are already scaled up from the samples, so the rate (written twice, as Go does) is 1.
fn heap_heading(profile: &Profile, out: &mut String) {
    let [objects, bytes, live_objects, live_bytes] = [0, 1, 2, 3].map(|at| profile.total(at));
    let _ = writeln!(out, "heap profile: {live_objects}: {live_bytes} [{objects}: {bytes}] @ heap/2");
}

fn heaviest_first(profile: &Profile) -> Vec<Sample<'_>> {
    let shown = profile.default_sample_index();
    let mut samples: Vec<Sample<'_>> = profile.samples().collect();
    sort_rows_by_key(&mut samples, |sample| {
        std::cmp::Reverse(sample.values.get(shown).copied().unwrap_or(0))
    });
    samples
}

fn write_sample(profile: &Profile, sample: &Sample<'_>, name: &str, out: &mut String) {
    let _ = match *sample.values {
        [objects, bytes, live_objects, live_bytes] => {
            write!(out, "{live_objects}: {live_bytes} [{objects}: {bytes}] @")
        }
        [count, delay] if is_contention(name) => write!(out, "{delay} {count} @"),
        _ => write!(out, "{} @", sample.values.first().copied().unwrap_or(0)),
    };
    let stack = profile.stack(sample.stack);
    for &location in stack {
        let _ = write!(out, " {:#x}", profile.location(location).address);
    }
    out.push('\n');
    for &location in stack {
        write_frames(profile, location, out);
    }
    out.push('\n');
}

fn write_frames(profile: &Profile, location: LocationId, out: &mut String) {
    let address = profile.location(location).address;
    let lines = profile.lines(location);
    if lines.is_empty() {
        let _ = writeln!(out, "#\t{address:#x}");
    }
    for line in lines {
        let Some(function) = line.function.map(|id| profile.function(id)) else { continue };
        let (name, file) = (profile.string(function.name), profile.string(function.filename));
        let _ = writeln!(out, "#\t{address:#x}\t{name}\t{file}:{}", line.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_capture::profile::ProfileBuilder;

    fn profile(types: &[(&str, &str)], values: &[i64]) -> Profile {
        let mut builder = ProfileBuilder::new(types);
        let leaf = builder.address(None, 0x10);
        let root = builder.address(None, 0x20);
        let stack = builder.stack(&[leaf, root]);
        builder.sample(stack, Default::default(), values);
        let mut profile = builder.finish();
        profile.add_comment("a remark");
        profile
    }

    #[test]
    fn counts_contention_and_heap_as_go_writes_them() {
        let cpu = profile(&[("samples", "count"), ("cpu", "nanoseconds")], &[3, 30]);
        assert_eq!(
            text(&cpu, "cpu"),
            "cpu profile: total 3\n3 @ 0x10 0x20\n#\t0x10\n#\t0x20\n\n# a remark\n"
        );
        let block = profile(&[("contentions", "count"), ("delay", "nanoseconds")], &[3, 30]);
        let expected = "--- contention:\ncycles/second=1000000000\n30 3 @ 0x10 0x20\n";
        assert!(text(&block, "block").starts_with(expected));
        let types = [("a", "count"), ("b", "bytes"), ("c", "count"), ("d", "bytes")];
        let heap = profile(&types, &[9, 900, 1, 100]);
        let expected = "heap profile: 1: 100 [9: 900] @ heap/2\n1: 100 [9: 900] @ 0x10 0x20\n";
        assert!(text(&heap, "heap").starts_with(expected));
    }
}
