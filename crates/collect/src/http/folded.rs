//! Folded stacks as `/ingest` takes them. The parameters say what they count, so they are not recognized like a file.

use flamelet_profile::{Budget, Error, ErrorKind, LabelSetId, Limits, Profile, ProfileBuilder, Result};
use flamelet_remote::receive::Ingest;

const SECOND: i64 = 1_000_000_000;

/// Reads lines of `main;work;leaf 12`.
pub(crate) fn read(bytes: &[u8], ingest: &Ingest) -> Result<Profile> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        wrong(before.iter().filter(|byte| **byte == b'\n').count() + 1, "is not UTF-8")
    })?;
    let budget = Budget::new(Limits::SERVICE);
    let period = SECOND / ingest.sample_rate;
    let is_cpu = matches!(&*ingest.units, "" | "samples");
    let mut builder = match &*ingest.units {
        "" | "samples" => ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]),
        "bytes" => ProfileBuilder::new(&[("alloc_space", "bytes")]),
        "objects" => ProfileBuilder::new(&[("alloc_objects", "count")]),
        "lock_nanoseconds" => ProfileBuilder::new(&[("delay", "nanoseconds")]),
        "lock_samples" => ProfileBuilder::new(&[("contentions", "count")]),
        other => ProfileBuilder::new(&[(other, "count")]),
    }
    .within(budget.clone());
    // What Pyroscope counts to the type of such a profile.
    match &*ingest.units {
        "" | "samples" => builder.set_period("cpu", "nanoseconds", period),
        "bytes" | "objects" => builder.set_period("space", "bytes", 0),
        "lock_nanoseconds" | "lock_samples" => builder.set_period("contentions", "count", 0),
        _ => {}
    }
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (stack, count) = line.trim().rsplit_once(' ').unwrap_or((line.trim(), "1"));
        let count: i64 = count.parse().map_err(|_| wrong(at + 1, "does not end with a number"))?;
        let frames: Vec<_> = stack.split(';').rev().map(|name| builder.named_frame(name)).collect();
        let stack = builder.stack(&frames);
        let values = [count, count.saturating_mul(period)];
        builder.merge_sample(stack, LabelSetId::EMPTY, if is_cpu { &values } else { &values[..1] });
        budget.check()?;
    }
    let header = builder.header_mut();
    header.time_nanos = ingest.from.unwrap_or(0);
    header.duration_nanos =
        ingest.from.zip(ingest.until).map_or(0, |(from, until)| until.saturating_sub(from).max(0));
    Ok(builder.finish())
}

fn wrong(line: usize, what: &str) -> Error {
    Error::new(ErrorKind::WrongFormat, format!("folded stacks: line {line} {what}"))
}

#[cfg(test)]
mod tests {
    use flamelet_remote::push;

    use super::*;

    #[test]
    fn lines_become_samples() {
        let ingest = Ingest { sample_rate: 100, from: Some(5), until: Some(SECOND + 5), ..Ingest::default() };
        let profile = read(b"main;a b 3\nmain;c 4\n\nmain;c 1\n", &ingest).expect("read");
        assert_eq!((profile.total(0), profile.total(1), profile.sample_count()), (8, 80_000_000, 2));
        assert_eq!((profile.header.time_nanos, profile.header.duration_nanos), (5, SECOND));
        let bytes = Ingest { units: "bytes".into(), sample_rate: 100, ..Ingest::default() };
        assert_eq!(read(b"a 7", &bytes).expect("read").total(0), 7);
        assert!(read(b"a x", &ingest).is_err());
        let error = read(b"a 1\nb 1\n\xff 1", &ingest).expect_err("not UTF-8").to_string();
        assert!(error.contains("line 3 is not UTF-8"), "{error}");
    }

    #[test]
    fn the_units_say_what_is_measured() {
        for (units, name, value, period) in [
            ("samples", "process_cpu", "cpu", "cpu"),
            ("bytes", "memory", "alloc_space", "space"),
            ("objects", "memory", "alloc_objects", "space"),
            ("lock_nanoseconds", "block", "delay", "contentions"),
            ("lock_samples", "block", "contentions", "contentions"),
        ] {
            let ingest = Ingest { units: units.into(), sample_rate: 100, ..Ingest::default() };
            let profile = read(b"main;work 7", &ingest).expect("read");
            let of = profile.header.period_type.expect("a period");
            let last = profile.sample_types().last().expect("a value");
            assert_eq!((profile.string(last.kind), profile.string(of.kind)), (value, period), "{units}");
            assert_eq!(push::name_of(&profile), name, "{units}");
        }
    }
}
