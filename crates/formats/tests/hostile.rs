//! Damaged files of every format: an error in one line or a profile, never a panic, never much memory.

mod support;

use std::path::Path;

use flamelet_formats::{ErrorKind, Format, FormatOptions, Limits, read, write};
use flamelet_test_support::{CountingAllocator, Random, most_allocated};
use support::open;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// More than any of the small files here can need, window buffers of decoders included.
const MAX_MEMORY: usize = 64 << 20;

/// The files of the data folder, unpacked, and what is written of one of them in every format.
fn seeds() -> Vec<(String, Format, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut seeds = Vec::new();
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.extension().is_some_and(|ending| ending == "rs") {
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|ending| ending == "xz") {
            bytes = unpack_xz(&bytes);
        }
        let read = read(&bytes[..], &FormatOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        seeds.push((path.file_name().unwrap().to_string_lossy().into_owned(), read.format, bytes));
    }
    let profile =
        open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-script.txt"), Format::PerfScript)
            .profile;
    for &format in Format::all().iter().filter(|format| format.can_write() && format.can_read()) {
        let mut bytes = Vec::new();
        write(&profile, format, &mut bytes, &FormatOptions::default()).unwrap();
        seeds.push((format!("written {format}"), format, bytes));
    }
    seeds
}

fn unpack_xz(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(packed, true), &mut bytes).unwrap();
    bytes
}

/// Reads damaged bytes, with the recognised and with a given format, and checks the result.
fn check(name: &str, format: Format, bytes: &[u8]) {
    for forced in [None, Some(format)] {
        let mut options = FormatOptions::default();
        options.format = forced;
        options.limits = Limits::of_memory(16 << 20);
        let (result, used) = most_allocated(|| read(bytes, &options));
        assert!(used < MAX_MEMORY, "{name}: {used} bytes of memory for a file of {}", bytes.len());
        if let Err(error) = result {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "{name}: `{message}` is not one line");
        }
    }
}

/// Changes a copy of `bytes` in one of the ways in which files get damaged.
fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => {
                bytes[at] = [0, 0xff, b'9', b'-', b'\n', b'"', 0x80, b'('][random.below(8)];
            }
            3 => {
                let end = (at + random.below(32)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + random.below(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let into = random.below(bytes.len());
                bytes.splice(into..into, piece);
            }
            _ => {
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill([0xff, 0x7f, b'9'][random.below(3)]);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

// One test does all of it, because memory is counted for the whole process.
#[test]
fn damaged_files_never_panic_nor_fill_the_memory() {
    let seeds = seeds();
    let mut formats: Vec<Format> = seeds.iter().map(|seed| seed.1).collect();
    formats.sort();
    formats.dedup();
    let readable: Vec<Format> = Format::all().iter().copied().filter(|format| format.can_read()).collect();
    assert_eq!(formats, readable, "there is a seed of every format");
    for (name, format, bytes) in &seeds {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15 ^ name.len() as u64);
        // Large seeds cost more each, so they get fewer rounds.
        let rounds = (300_000 / (bytes.len() + 2_000)).clamp(6, 120);
        for cut in 0..10 {
            check(name, *format, &bytes[..bytes.len() * cut / 10]);
        }
        for round in 0..rounds {
            let damaged = damage(bytes, &mut random);
            check(&format!("{name}, round {round}"), *format, &damaged);
        }
        // Mislabelled: the bytes of one format read as each of the others.
        for &other in Format::all() {
            check(&format!("{name} as {other}"), other, bytes);
        }
    }
    replay_findings();
    deep_trees();
}

#[test]
fn every_reader_has_a_fuzz_target() {
    for format in Format::all().iter().filter(|format| format.can_read()) {
        let corpus = fuzz().join(format!("corpus/read-{format}"));
        assert!(corpus.is_dir(), "no fuzz target reads {format}");
    }
}

/// Trees that are as deep as they are large, in which every node becomes a stack, would take the square of their size.
fn deep_trees() {
    const DEPTH: usize = 3000;
    let join = |item: &dyn Fn(usize) -> String| (0..DEPTH).map(item).collect::<Vec<_>>().join(",");
    let events = join(&|at| format!(r#"{{"type":"O","frame":0,"at":{at}}}"#));
    let speedscope = format!(
        r#"{{"$schema":"x","shared":{{"frames":[{{"name":"f"}}]}},"profiles":[{{"type":"evented","unit":"seconds",
        "startValue":0,"endValue":{DEPTH},"events":[{events}]}}]}}"#
    );
    let node = |at| {
        format!(r#"{{"id":{at},"callFrame":{{"functionName":"f"}},"hitCount":1,"children":[{}]}}"#, at + 1)
    };
    let cpuprofile = format!(r#"{{"nodes":[{}]}}"#, join(&node));
    let spans =
        |at: usize| format!(r#"{{"ph":"X","name":"f","tid":1,"ts":{at},"dur":{}}}"#, 2 * (DEPTH - at));
    let traces: String = (0..DEPTH).map(|at| format!("t 10 {at:x}\n+ 1 {:x} {at:x}\n", at + 1)).collect();
    let files = [
        (Format::Speedscope, speedscope),
        (Format::CpuProfile, cpuprofile),
        (Format::TraceEvent, format!("[{}]", join(&spans))),
        (Format::Heaptrack, format!("v 10400 3\n{traces}")),
    ];
    for (format, file) in files {
        let mut options = FormatOptions::default();
        options.limits = Limits::of_memory(4 << 20);
        let (result, used) = most_allocated(|| read(file.as_bytes(), &options));
        let error = result.expect_err("more than is allowed");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{format}: {error}");
        assert!(used < 32 << 20, "{format}: {used} bytes of memory for a file of {}", file.len());
        options.limits = Limits::of_memory(2 << 30);
        let samples = read(file.as_bytes(), &options).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert!(samples.profile.sample_count() >= DEPTH - 1, "{format}");
    }
}

/// The folder of the fuzz targets.
fn fuzz() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Replays what the fuzzer found, each as the format of its target.
fn replay_findings() {
    let targets = std::fs::read_dir(fuzz().join("corpus")).expect("fuzz/corpus");
    for target in targets.map(|entry| entry.unwrap().path()) {
        let name = target.file_name().unwrap().to_string_lossy().into_owned();
        let Some(format) = name.strip_prefix("read-") else { continue };
        // Inputs of `read-any` are recognised; their given format does not matter.
        let format = if format == "any" { "pprof" } else { format };
        let format: Format = format.parse().expect("a target is named after a format");
        for finding in std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()) {
            check(&finding.display().to_string(), format, &std::fs::read(&finding).unwrap());
        }
    }
}
