//! Small files of every format, whose content is known.

mod support;

use std::path::PathBuf;

use flamelet_formats::{ErrorKind, Format, FormatOptions, Limits, recognise};
use flamelet_profile::Profile;
use support::{folded, open, open_bytes, total};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The stacks of one value as lines, sorted.
#[track_caller]
fn stacks(profile: &Profile, kind: &str) -> Vec<String> {
    folded(profile, kind).iter().map(|(stack, value)| format!("{stack} {value}")).collect()
}

fn threads(profile: &Profile) -> Vec<(u64, u64, &str)> {
    let timeline = profile.timeline.as_ref().expect("a timeline");
    timeline.threads.iter().map(|thread| (thread.pid, thread.tid, profile.string(thread.name))).collect()
}

fn times(profile: &Profile) -> Vec<(u64, i64)> {
    profile
        .timeline
        .as_ref()
        .expect("a timeline")
        .events
        .iter()
        .map(|event| (event.time, event.value))
        .collect()
}

#[test]
fn speedscope_events_and_several_units() {
    let profile = open(&data("evented.speedscope.json"), Format::Speedscope).profile;
    assert_eq!(stacks(&profile, "time"), ["main 8500000", "main;leaf 1500000"]);
    assert_eq!(stacks(&profile, "space"), ["main 100", "main;leaf 200"]);
    assert_eq!(times(&profile), [(0, 2_500_000), (2_500_000, 1_500_000), (4_000_000, 6_000_000)]);
    assert_eq!(threads(&profile)[0], (0, 12, "worker"));
}

#[test]
fn firefox_with_shared_tables_and_cpu_times() {
    let profile = open(&data("firefox-shared.json"), Format::Firefox).profile;
    assert_eq!(stacks(&profile, "samples"), ["main 1", "main;leaf 2"]);
    assert_eq!(stacks(&profile, "cpu"), ["main 2000000", "main;leaf 3500000"]);
    assert_eq!(times(&profile), [(0, 2_000_000), (2_000_000, 1_500_000), (4_000_000, 2_000_000)]);
    let leaf = profile.functions().iter().find(|function| profile.string(function.name) == "leaf").unwrap();
    assert_eq!(profile.string(leaf.filename), "/src/main.rs");
    assert_eq!(profile.string(profile.mappings()[0].build_id), "abcd");
}

#[test]
fn gecko_frames_as_text() {
    let profile = open(&data("gecko.json"), Format::Gecko).profile;
    assert_eq!(stacks(&profile, "samples"), ["(root);0x7f00 1", "(root);run 1"]);
    assert_eq!(threads(&profile), [(5, 6, "GeckoMain")]);
    assert_eq!(profile.timeline.unwrap().start_nanos, 1_700_000_000_010_500_000);
}

#[test]
fn cpuprofile_samples_and_hits() {
    let profile = open(&data("v8.cpuprofile"), Format::CpuProfile).profile;
    assert_eq!(stacks(&profile, "samples"), ["(idle) 1", "main 1", "main;(anonymous) 2"]);
    assert_eq!(stacks(&profile, "time"), ["(idle) 500000", "main 1000000", "main;(anonymous) 2000000"]);
    let profile = open(&data("nested.cpuprofile"), Format::CpuProfile).profile;
    assert_eq!(stacks(&profile, "samples"), ["main 3"]);
}

#[test]
fn trace_events_nest_and_may_lack_their_end() {
    let read = open(&data("spans.trace.json"), Format::TraceEvent);
    let expected =
        ["fetch 50000", "never ends 10000", "request 39500", "request;parse 30000", "request;query 30500"];
    assert_eq!(stacks(&read.profile, "time"), expected);
    assert!(read.notes.iter().any(|note| note.contains("ends in the middle")), "{:?}", read.notes);
    assert!(read.notes.iter().any(|note| note.contains("1 spans do not end")), "{:?}", read.notes);
    assert!(threads(&read.profile).contains(&(1, 7, "tokio-worker")));

    let profile = open(&data("devtools.trace.json"), Format::TraceEvent).profile;
    assert_eq!(stacks(&profile, "samples"), ["main 2", "main;leaf 1"]);
    assert_eq!(stacks(&profile, "time"), ["main 500000"]);
}

#[test]
fn callgrind_spreads_costs_over_callers() {
    let profile = open(&data("small.callgrind"), Format::Callgrind).profile;
    // `leaf` costs 100 in all; its callers' calls cost 60 and 40.
    let expected = ["main 5", "main;left 40", "main;left;leaf 60", "main;right 20", "main;right;leaf 40"];
    assert_eq!(stacks(&profile, "Ir"), expected);
    assert_eq!((total(&profile, "Ir"), total(&profile, "Dr")), (165, 11));
    let inlined = profile.functions().iter().find(|f| profile.string(f.filename) == "inlined.h").unwrap();
    assert_eq!(profile.string(inlined.name), "leaf");
}

#[test]
fn cachegrind_lines() {
    let profile = open(&data("small.cachegrind"), Format::Cachegrind).profile;
    assert_eq!(stacks(&profile, "Ir"), ["leaf 100", "main 12"]);
    assert_eq!(total(&profile, "I1mr"), 3);
}

#[test]
fn massif_takes_the_peak() {
    let profile = open(&data("small.massif"), Format::Massif).profile;
    assert_eq!(stacks(&profile, "inuse_space"), ["[below massif's threshold] 100", "main;grow 900"]);
    let largest = "massif: 3 snapshots; the largest is 1 at 100 i: heap 1000 B, extra 8 B, stacks 0 B";
    assert!(profile.comments().any(|comment| comment == largest));
    assert_eq!(profile.default_sample_index(), 0);
}

#[test]
fn massif_keeps_its_timeline() {
    let profile = open(&data("small.massif"), Format::Massif).profile;
    let snapshots = support::column(&profile, "snapshot_space");
    let timeline = profile.timeline.as_ref().expect("snapshots have times");
    assert_eq!(timeline.value_type, snapshots);
    let mut sizes = std::collections::BTreeMap::<u64, i64>::new();
    for event in &timeline.events {
        assert_eq!(event.value, profile.sample(event.sample as usize).values[snapshots]);
        *sizes.entry(event.time).or_default() += event.value;
    }
    // Instructions since the start, and the heap as each snapshot gives it.
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [(0, 0), (100, 1000), (200, 500)]);
}

#[test]
fn dhat_six_values() {
    let profile = open(&data("small.dhat.json"), Format::Dhat).profile;
    assert_eq!(stacks(&profile, "alloc_space"), ["main 8", "main;alloc::grow 100"]);
    assert_eq!(stacks(&profile, "peak_space"), ["main;alloc::grow 50"]);
    assert_eq!((total(&profile, "inuse_objects"), total(&profile, "inuse_space")), (1, 25));
}

#[test]
fn heaptrack_four_values() {
    let profile = open(&data("interpreted.heaptrack"), Format::Heaptrack).profile;
    let sizes: Vec<_> = profile.heap_sizes().iter().map(|size| (size.time, size.bytes)).collect();
    assert_eq!(sizes, [(10_000_000, 116), (10_000_000, 132)], "the most in each of two spans of time");
    assert_eq!(stacks(&profile, "alloc_objects"), ["main 1", "main;main;foo::leaf(int) 3"]);
    assert_eq!(stacks(&profile, "temporary_objects"), ["main;main;foo::leaf(int) 1"]);
    assert_eq!(stacks(&profile, "peak_space"), ["main 100", "main;main;foo::leaf(int) 32"]);
    assert_eq!(stacks(&profile, "inuse_space"), ["main;main;foo::leaf(int) 32"]);

    let read = open(&data("raw.heaptrack"), Format::Heaptrack);
    assert_eq!(stacks(&read.profile, "alloc_space"), ["0x55d001010 100", "0x55d001010;0x7f0000020 16"]);
    assert_eq!(total(&read.profile, "peak_space"), 116);
    assert_eq!(total(&read.profile, "inuse_space"), 0);
    assert!(read.notes.iter().any(|note| note.contains("1 frees of unknown")), "{:?}", read.notes);
    let names: Vec<_> = read.profile.mappings().iter().map(|m| read.profile.string(m.filename)).collect();
    assert_eq!(names, ["/bin/server", "/lib/libc.so.6"]);
}

#[test]
fn jemalloc_is_scaled_up_stack_by_stack() {
    let profile = open(&data("jemalloc.heap"), Format::Jemalloc).profile;
    let leaf = "0x7f0000001000;0x55d001200;0x55d001100";
    // An object of the sampling rate is seen with probability 1 - 1/e.
    assert_eq!(folded(&profile, "inuse_space")[leaf], 2 * 829_411);
    assert_eq!(folded(&profile, "alloc_objects")["0x55d001200;0x55d001160"], 512);
    assert_eq!(profile.mappings().len(), 2);
    assert_eq!(profile.string(profile.mappings()[1].filename), "/lib/libc.so.6");
    assert_eq!(profile.header.period, 524_288);
}

#[test]
fn older_kinds_of_pprof() {
    let profile = open(&data("tcmalloc.heap"), Format::PprofLegacy).profile;
    assert_eq!(folded(&profile, "inuse_space")["0x402000;0x401000"], 829_411);
    assert_eq!(folded(&profile, "alloc_objects")["0x402000;0x401000"], 3);
    let profile = open(&data("growth.heap"), Format::PprofLegacy).profile;
    assert_eq!(total(&profile, "inuse_space"), 98_304);
    let profile = open(&data("go-heap.txt"), Format::PprofLegacy).profile;
    assert_eq!(stacks(&profile, "inuse_objects"), ["main.main;main.alloc 512"]);
    let profile = open(&data("contention.txt"), Format::PprofLegacy).profile;
    assert_eq!((total(&profile, "contentions"), total(&profile, "delay")), (300, 1_002_000));
    let profile = open(&data("threadz.txt"), Format::PprofLegacy).profile;
    assert_eq!(total(&profile, "thread"), 3);
    assert_eq!(folded(&profile, "thread")["0x40be30;0xbc8f1c"], 2);
    let profile = open(&data("goroutine.txt"), Format::PprofLegacy).profile;
    assert_eq!(stacks(&profile, "goroutine"), ["main.serve;runtime.gopark 3", "main.wait;runtime.gopark 4"]);
    let profile = open(&data("java-heap.txt"), Format::PprofLegacy).profile;
    assert_eq!(
        stacks(&profile, "inuse_space"),
        ["GC 200", "com.example.Main.main;com.example.Alloc.leaf 100"]
    );
}

/// A binary CPU profile in words of either size and order.
fn cpu_profile(word: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let words = [0, 3, 0, 10_000, 0, 5, 2, 0x40_1000, 0x40_2001, 1, 1, 0x40_1100, 0, 1, 0];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(word).collect();
    bytes.extend_from_slice(b"00400000-00500000 r-xp 00000000 08:01 5 /usr/bin/server\n");
    bytes
}

#[test]
fn binary_cpu_profiles() {
    let files = [
        cpu_profile(|word| word.to_le_bytes().to_vec()),
        cpu_profile(|word| word.to_be_bytes().to_vec()),
        cpu_profile(|word| (word as u32).to_le_bytes().to_vec()),
        cpu_profile(|word| (word as u32).to_be_bytes().to_vec()),
    ];
    for file in files {
        let profile = open_bytes(&file, Format::PprofLegacy).profile;
        assert_eq!(stacks(&profile, "samples"), ["0x401100 1", "0x402000;0x401000 5"]);
        assert_eq!(total(&profile, "cpu"), 60_000_000);
        assert_eq!(profile.mappings().len(), 1);
    }
}

#[test]
fn strace_calls_that_are_cut_in_two() {
    let profile = open(&data("strace.log"), Format::Strace).profile;
    assert_eq!(folded(&profile, "time")["futex"], 500_000_000);
    assert_eq!(folded(&profile, "calls")["write"], 1);
    assert_eq!(folded(&profile, "errors")["access"], 1);
    assert!(profile.timeline.as_ref().unwrap().start_nanos > 1_794_711_191_000_000_000);
    let profile = open(&data("strace.table"), Format::StraceSummary).profile;
    assert_eq!(total(&profile, "calls"), 89);
    assert_eq!(folded(&profile, "errors")["access"], 1);
}

#[test]
fn bpftrace_maps_and_histograms() {
    let profile = open(&data("bpftrace.txt"), Format::Bpftrace).profile;
    let expected = [
        "@bytes;tokio-runtime;7 4096",
        "@total 9",
        "@usecs[cat];[1K, 2K) 1",
        "@usecs[cat];[4, 8) 2",
        "@usecs[cat];[8, 16) 10",
        "main;0x5555deadbeee;read 3",
        "main;clock_nanosleep;__x64_sys_clock_nanosleep;do_nanosleep 2",
    ];
    assert_eq!(stacks(&profile, "samples"), expected);
    assert!(profile.strings().find("bash, 1234").is_some());
    // A caller's address is within its call, and in what was mapped there.
    let unnamed = profile.locations().iter().find(|location| location.address == 0x5555_dead_beee).unwrap();
    let mapping = profile.mapping(unnamed.mapping.expect("a module"));
    assert_eq!((profile.string(mapping.filename), mapping.offset), ("/usr/bin/bash", 0x1000));
}

#[test]
fn dtrace_stacks() {
    let profile = open(&data("dtrace.txt"), Format::Dtrace).profile;
    assert_eq!(
        stacks(&profile, "samples"),
        ["0xffff0001;0xfffffffff7d;mutex_enter 12", "_start;main;__read 5"]
    );
}

#[test]
fn macos_sample_tree() {
    let profile = open(&data("mac-sample.txt"), Format::MacSample).profile;
    let expected = [
        "start;main 1",
        "start;main;0x10e 3",
        "start;main;work 2",
        "start;main;work;leaf(int) 4",
        "thread_start 5",
    ];
    assert_eq!(stacks(&profile, "samples"), expected);
    assert_eq!(total(&profile, "time"), 15_000_000);
}

#[test]
fn xctrace_references() {
    let read = open(&data("xctrace.xml"), Format::Xctrace);
    assert_eq!(stacks(&read.profile, "cpu"), ["main;0x2000 2000000", "main;leaf<T> 2000000"]);
    assert_eq!(threads(&read.profile), [(77, 31, "Main Thread 0x1f (server, pid: 77)")]);
    assert_eq!(times(&read.profile), [(0, 1_000_000), (1_000_000, 1_000_000), (2_000_000, 2_000_000)]);
    assert_eq!(read.notes, ["1 rows without a stack or a weight are dropped"]);
}

#[test]
fn flight_recording() {
    // Counted with `jfr print --events jdk.ExecutionSample`.
    let profile = open(&data("recording.jfr.xz"), Format::Jfr).profile;
    assert_eq!(total(&profile, "samples"), 69);
    let costs = support::flat_and_cumulative(&profile, "samples");
    assert!(costs["Work.leaf"].0 > 60, "{costs:?}");
    assert_eq!(costs["Work.main"].1, 69);
    assert_eq!(threads(&profile).len(), 1);
}

#[test]
fn messages_of_valgrind_above_a_file_are_ignored() {
    for (name, format) in [("stacks.folded", Format::Folded), ("small.callgrind", Format::Callgrind)] {
        let clean = std::fs::read(data(name)).unwrap();
        let noisy =
            [b"==12== Memcheck, a memory error detector\n==12== Command: ./server\n", &clean[..]].concat();
        let (clean, noisy) = (open_bytes(&clean, format), open_bytes(&noisy, format));
        assert_eq!(noisy.profile.total(0), clean.profile.total(0), "{name}");
    }
}

#[test]
fn packed_files_of_every_kind() {
    use std::io::Write;
    let text = std::fs::read(data("stacks.folded")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    let mut gzip = gzip.finish().unwrap();
    // Two members, as `cat a.gz b.gz` makes them.
    gzip.extend_from_within(..);
    assert_eq!(total(&open_bytes(&gzip, Format::Folded).profile, "samples"), 38);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip2.write_all(&text).unwrap();
    assert_eq!(total(&open_bytes(&bzip2.finish().unwrap(), Format::Folded).profile, "samples"), 19);
    let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(total(&open_bytes(&zstd.repeat(3), Format::Folded).profile, "samples"), 57);
    assert_eq!(recognise(&zstd).unwrap(), Format::Folded);
}

#[test]
fn a_small_file_cannot_fill_the_memory() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        gzip.write_all("main;leaf 1\n".repeat(100_000).as_bytes()).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    let mut options = FormatOptions::default();
    options.limits = Limits { memory: 4 << 20, work: 1 << 20 };
    let error = flamelet_formats::read(&bomb[..], &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfWork);
    assert_eq!(error.to_string(), "needs more than the allowed 1048576 steps of work");
}

/// An interrupted download is the most likely damage, so it has its own message, for every compression.
#[test]
fn a_packed_file_that_is_cut_off_says_so() {
    use std::io::Write;
    let text = std::fs::read(data("stacks.folded")).unwrap().repeat(200);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip2.write_all(&text).unwrap();
    let packed = [
        ("gzip", gzip.finish().unwrap()),
        ("bzip2", bzip2.finish().unwrap()),
        ("zstd", ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest)),
        ("xz", std::fs::read(data("recording.jfr.xz")).unwrap()),
    ];
    for (name, bytes) in packed {
        let error =
            flamelet_formats::read(&bytes[..bytes.len() * 2 / 3], &FormatOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("the file is cut off: "), "{name}: {error}");
    }
}

#[test]
fn what_is_no_profile_is_refused_in_one_line() {
    let unknown = "unknown format: this is not a profile that flamelet can read";
    let cases: [(&[u8], &str); 5] = [
        (b"", "the file is empty"),
        (b"hello world\n", unknown),
        (b"{\"a\": 1}", unknown),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0", unknown),
        (b"# a comment\n\n", unknown),
    ];
    for (bytes, message) in cases {
        let error = flamelet_formats::read(bytes, &FormatOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), message, "{}", String::from_utf8_lossy(bytes));
    }
}
