//! pprof: repeated empty fields take two bytes each in the file, and almost nothing once compressed.

use flamelet_tests::wire::Message;

use super::{Bomb, Maker};

pub(super) const ALL: &[Maker] = &[
    empty_lines,
    empty_labels,
    different_labels,
    empty_strings,
    empty_threads,
    sparse_ids,
    deep_stacks,
    many_values,
    damaged_text,
    long_pattern,
];

const COUNT: usize = 6 << 20;

/// A sample type, and what follows.
fn profile(build: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = Message::default();
    message.bytes(1, &[]);
    build(&mut message);
    message.bytes(6, &[]);
    message.into_bytes()
}

/// Returns a profile whose last message begins with `head` and has this many more bytes.
fn last_message(field: u64, head: &[u8], more: usize) -> Vec<u8> {
    let mut message = Message::default();
    message.bytes(1, &[]).bytes(6, &[]);
    message.raw_varint(field << 3 | 2);
    message.raw_varint((head.len() + more) as u64);
    [message.into_bytes(), head.to_vec()].concat()
}

/// One location with millions of empty lines.
pub(super) fn empty_lines() -> Bomb {
    lines("lines.pb.gz", COUNT)
}

/// More than the default budget allows.
pub(super) fn worst_lines() -> Bomb {
    lines("most-lines.pb.gz", 48 << 20)
}

fn lines(name: &'static str, count: usize) -> Bomb {
    Bomb::packed_units(name, &last_message(4, &[0x08, 1], 2 * count), &[0x22, 0], count)
}

/// One sample with millions of empty labels.
fn empty_labels() -> Bomb {
    labels("labels.pb.gz", COUNT)
}

pub(super) fn worst_labels() -> Bomb {
    labels("most-labels.pb.gz", 48 << 20)
}

fn labels(name: &'static str, count: usize) -> Bomb {
    Bomb::packed_units(name, &last_message(2, &[0x12, 1, 0], 2 * count), &[0x1a, 0], count)
}

/// Samples with a new label set each.
fn different_labels() -> Bomb {
    let bytes = profile(|profile| {
        for count in 0..4000 {
            profile.bytes(2, &[&[0x12, 1, 0][..], &[0x1a, 0].repeat(count)].concat());
        }
    });
    Bomb::packed("label-sets.pb.gz", bytes)
}

fn empty_strings() -> Bomb {
    Bomb::packed("strings.pb.gz", profile(|profile| (0..COUNT).for_each(|_| _ = profile.bytes(6, &[]))))
}

/// A timeline of millions of threads that are not described.
fn empty_threads() -> Bomb {
    let threads = [0x12, 0].repeat(COUNT);
    Bomb::packed("threads.pb.gz", profile(|profile| _ = profile.bytes(2601, &threads)))
}

/// Functions with sparse ids.
fn sparse_ids() -> Bomb {
    let bytes = profile(|profile| {
        for number in 0..1_000_000u64 {
            let mut function = Message::default();
            function.varint(1, (number + 1) * 3);
            profile.message(5, &function);
        }
    });
    Bomb::packed("sparse.pb.gz", bytes)
}

/// Samples with the deepest stacks that one byte per frame allows.
fn deep_stacks() -> Bomb {
    let bytes = profile(|profile| {
        profile.bytes(4, &[0x08, 1]);
        let mut sample = Message::default();
        sample.bytes(1, &vec![1; 1 << 20]).bytes(2, &[1]);
        (0..16).for_each(|_| _ = profile.message(2, &sample));
    });
    Bomb::packed("stacks.pb.gz", bytes)
}

/// A string of invalid UTF-8: each byte becomes a character of three bytes.
fn damaged_text() -> Bomb {
    Bomb::packed_units("text.pb.gz", &last_message(6, &[], 14 << 20), &[0xff], 14 << 20)
}

/// A `drop_frames` expression of megabytes.
fn long_pattern() -> Bomb {
    let bytes = profile(|profile| {
        profile.bytes(6, &[]).bytes(6, &vec![b'a'; 4 << 20]).varint(7, 1);
    });
    Bomb::packed("pattern.pb.gz", bytes)
}

/// Millions of sample types, and a sample with a value for each.
fn many_values() -> Bomb {
    let bytes = profile(|profile| {
        (0..COUNT).for_each(|_| _ = profile.bytes(1, &[]));
        let mut sample = Message::default();
        sample.bytes(2, &vec![1; COUNT + 1]);
        profile.message(2, &sample);
    });
    Bomb::packed("values.pb.gz", bytes)
}
