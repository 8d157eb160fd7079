//! For the fuzzer.

use flamelet_profile::{Budget, Limits, ProfileBuilder, Quality};

use crate::reader::merge::Merge;
use crate::reader::query::Query;
use crate::segment::encode::Encoder;
use crate::segment::record::{self, Effort, Record, Records};
use crate::segment::{HEADER, visit};

/// Reads any bytes as a segment and makes a profile of all its windows.
///
/// # Panics
///
/// If the profile is not valid.
#[doc(hidden)]
pub fn fuzz_segment(bytes: &[u8]) {
    let budget = Budget::new(Limits::of_memory(64 << 20));
    let query = Query::new("cpu", i64::MIN, i64::MAX);
    let mut merge = Merge::new(&query, &budget);
    if visit(bytes, &budget, &mut merge).is_err() {
        return;
    }
    let Some(profile) = merge.finish() else { return };
    if budget.check().is_err() {
        return;
    }
    for sample in profile.samples() {
        for &location in profile.stack(sample.stack) {
            let location = profile.location(location);
            let mapping = location.mapping.map(|id| profile.mapping(id));
            assert!(mapping.is_none_or(|mapping| (mapping.start..mapping.limit).contains(&location.address)));
        }
        let texts = profile.labels(sample.labels).iter().map(|label| profile.string(label.key).len());
        assert!(texts.sum::<usize>() < usize::MAX);
    }
}

/// Returns the four records of two small windows, as [`fuzz_bodies`] takes them: seeds of the fuzzer.
///
/// # Panics
///
/// If they cannot be encoded.
#[doc(hidden)]
pub fn example_bodies() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new();
    let window = |number: i64| {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let program = builder.file_mapping(0x1000..0x9000, 0x400, "/bin/service", "ab01");
        let mark = builder.named_frame("[truncated]");
        let frames = [builder.address(Some(program), 0x1010), builder.address(None, number as u64), mark];
        let stack = builder.stack(&frames);
        let labels = [builder.text_label("thread", "main"), builder.number_label("bytes", number, "bytes")];
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[number, number * 10]);
        builder.header_mut().time_nanos = number;
        builder.finish_with(None, Some(Quality { samples: 7, ..Quality::default() }))
    };
    let records: Vec<u8> =
        (1..=2).flat_map(|number| encoder.encode("cpu", &window(number)).expect("small")).collect();
    let budget = Budget::new(Limits::SERVICE);
    let (mut records, mut bodies) = (Records::new(&records, &budget), Vec::new());
    while let Some(Record { tag, body }) = records.next_tagged(|_| true).expect("within the budget") {
        let (mark, tag) = tag.as_ref().map_or((0, &[][..]), |tag| (1, &tag[..]));
        bodies.push([&[mark], tag, body.unwrap_or_default()].concat());
    }
    bodies
}

/// Reads any bytes as the records of a segment: after a byte 1 with a tag before the body, after any other byte without.
///
/// # Panics
///
/// If the profile is not valid.
#[doc(hidden)]
pub fn fuzz_bodies(bodies: &[&[u8]]) {
    let pack = |bytes: &[u8]| match bytes.split_first()? {
        (1, rest) => {
            let (tag, body) = rest.split_first_chunk()?;
            record::pack_tagged(tag, body, Effort::Small).ok()
        }
        (_, body) => record::pack(body, Effort::Small).ok(),
    };
    let records = bodies.iter().filter_map(|bytes| pack(bytes));
    let segment: Vec<u8> = HEADER.iter().copied().chain(records.flatten()).collect();
    fuzz_segment(&segment);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_history_and_no_change_of_it_does_harm() {
        let bodies = example_bodies();
        let all: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        fuzz_bodies(&all);
        for (at, body) in bodies.iter().enumerate() {
            for position in 0..body.len() {
                for change in [0x01, 0x08, 0x80, 0xff] {
                    let mut changed = body.clone();
                    changed[position] ^= change;
                    let mut all = all.clone();
                    all[at] = &changed;
                    fuzz_bodies(&all);
                    all.remove((at + 1) % 4);
                    fuzz_bodies(&all);
                }
            }
        }
        for other in [&b""[..], b"x", HEADER, &[0xff; 100]] {
            fuzz_segment(other);
        }
    }
}
