//! Files of other tools that did not open once: older versions, lost indentation, another encoding, parts missing.

mod support;

use std::io::Read as _;
use std::path::PathBuf;

use flamelet_formats::{Format, Read};
use flamelet_profile::Profile;
use support::{folded, open, open_bytes, total};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).expect("a file of the tests")
}

#[track_caller]
fn stacks(profile: &Profile, kind: &str) -> Vec<String> {
    folded(profile, kind).iter().map(|(stack, value)| format!("{stack} {value}")).collect()
}

#[track_caller]
fn assert_noted(read: &Read, part: &str) {
    assert!(read.notes.iter().any(|note| note.contains(part)), "{:?}", read.notes);
}

fn default_kind(profile: &Profile) -> &str {
    profile.string(profile.sample_types()[profile.default_sample_index()].kind)
}

#[test]
fn perf_script_without_indentation_has_the_same_stacks() {
    let text = String::from_utf8(bytes("perf-script.txt")).expect("text");
    // The last line is cut.
    let (whole, _) = text.trim_end().rsplit_once('\n').expect("several lines");
    let bare: Vec<&str> = whole.lines().map(str::trim).collect();
    let (whole, bare) = (
        open_bytes(whole.as_bytes(), Format::PerfScript).profile,
        open_bytes(bare.join("\n").as_bytes(), Format::PerfScript).profile,
    );
    assert_eq!(folded(&bare, "samples"), folded(&whole, "samples"));
}

/// Version 1 is laid out like version 2 and begins with another word.
#[test]
fn perf_data_of_version_1_is_read() {
    let mut unpacked = Vec::new();
    lzma(&bytes("small.data.xz"), &mut unpacked);
    let second = open_bytes(&unpacked, Format::PerfData).profile;
    unpacked[..8].copy_from_slice(b"PERFFILE");
    let first = open_bytes(&unpacked, Format::PerfData).profile;
    assert_eq!(folded(&first, "samples"), folded(&second, "samples"));
    assert!(total(&first, "samples") > 0);
}

fn lzma(packed: &[u8], unpacked: &mut Vec<u8>) {
    let program = std::process::Command::new("xz").arg("--version").output();
    assert!(program.is_ok(), "xz is not installed: apt-get install --yes xz-utils");
    let file = support::folder("held-out").join(format!("packed-{}.xz", std::process::id()));
    std::fs::write(&file, packed).expect("written");
    let output = support::run(std::process::Command::new("xz").args(["--decompress", "--stdout"]).arg(&file));
    (&output.stdout[..]).read_to_end(unpacked).expect("read");
}

#[test]
fn of_several_events_perf_shows_cpu_time_first() {
    let text = "main 1 1.5: 7 page-faults: \n\t10 a+0x1 (/m)\n\nmain 1 1.6: 1000 cpu-clock: \n\t20 b+0x1 (/m)\n\n\
                main 1 1.7: 3 context-switches: \n\t20 b+0x1 (/m)\n";
    let profile = open_bytes(text.as_bytes(), Format::PerfScript).profile;
    assert_eq!(default_kind(&profile), "cpu");
    assert_eq!(
        (total(&profile, "page-faults"), total(&profile, "cpu"), total(&profile, "context-switches")),
        (7, 1000, 3)
    );
}

#[test]
fn callgrind_with_relative_positions_and_names_never_defined() {
    let text = "# callgrind format\nevents: Ir\npositions: instr line\n\nob=(1) /bin/x\nfl=(3)\nfn=(1) main\n\
                0x400 10 5\n+4 +1 7\n* * 1\ncfn=(9)\ncalls=2 +0x20 -3\n-2 +2 60\nfrobnicate=1\nfn=(9)\n+0x10 * 60\n";
    let read = open_bytes(text.as_bytes(), Format::Callgrind);
    assert_eq!(stacks(&read.profile, "Ir"), ["main 13", "main;(9) 60"]);
    assert_noted(&read, "2 names are never defined");
    assert_noted(&read, "1 lines of unknown kinds");
}

#[test]
fn gecko_profiles_hold_other_processes_as_text() {
    let inner = String::from_utf8(bytes("gecko.json")).expect("text");
    let text = serde_json::json!({
        "meta": {"version": 3, "interval": 1, "startTime": 0.0},
        "libs": "[]",
        "threads": [inner, {"name": "Empty", "tid": 1}],
    });
    let profile = open_bytes(text.to_string().as_bytes(), Format::Gecko).profile;
    assert_eq!(stacks(&profile, "samples"), ["(root);0x7f00 1", "(root);run 1"]);
}

/// Firefox 59 to 63: libraries in the threads, -1 for what is unknown, addresses as text.
#[test]
fn processed_firefox_profiles_of_old_versions() {
    let text = serde_json::json!({
        "meta": {"preprocessedProfileVersion": 8, "interval": 1, "startTime": 0.0, "product": "Firefox"},
        "threads": [{
            "name": "GeckoMain", "tid": 7, "pid": null, "libs": [],
            "stringArray": ["main", "leaf"],
            "samples": {"length": 2, "stack": [1, -1], "time": [0, 1]},
            "stackTable": {"length": 2, "prefix": [-1, 0], "frame": [0, 1]},
            "frameTable": {"length": 2, "address": [-1, "0x1f"], "func": [0, 1], "line": [null, 3.0]},
            "funcTable": {"length": 2, "name": [0, 1], "resource": [-1, -1], "fileName": [-1, null]},
            "resourceTable": {"length": 1, "lib": [-1]},
        }],
    });
    let profile = open_bytes(text.to_string().as_bytes(), Format::Firefox).profile;
    assert_eq!(stacks(&profile, "samples"), ["main;leaf 1"]);
}

/// Written by `node --heap-prof`.
#[test]
fn chrome_heap_profiles_have_stacks_and_bytes() {
    let profile = open(&data("node.heapprofile"), Format::CpuProfile).profile;
    let stacks = folded(&profile, "inuse_space");
    let kept: i64 =
        stacks.iter().filter(|(stack, _)| stack.ends_with(";outer;keep")).map(|(_, value)| value).sum();
    assert_eq!((kept, total(&profile, "inuse_space")), (KEPT, ALL));
}

/// The sums of `selfSize` in the file, by a script of a few lines.
const KEPT: i64 = 4_282_344;
const ALL: i64 = 9_104_504;

#[test]
fn traces_whose_nodes_come_late_or_never() {
    let event = |chunk: &str| {
        format!(
            r#"{{"ph":"P","pid":3,"tid":9,"id":"0x1","ts":1,"name":"ProfileChunk","args":{{"data":{chunk}}}}}"#
        )
    };
    let node = |id: u32, parent: u32, name: &str| {
        format!(r#"{{"id":{id},"parent":{parent},"callFrame":{{"functionName":"{name}"}}}}"#)
    };
    let first = event(r#"{"cpuProfile":{"samples":[3,8,3]},"timeDeltas":[10,10,10]}"#);
    let nodes = [
        r#"{"id":1,"callFrame":{"functionName":"(root)"}}"#.to_owned(),
        node(2, 1, "main"),
        node(3, 2, "leaf"),
    ];
    let late = event(&format!(
        r#"{{"cpuProfile":{{"nodes":[{}],"samples":[2]}},"timeDeltas":[10]}}"#,
        nodes.join(",")
    ));
    let read = open_bytes(format!(r#"{{"traceEvents":[{first},{late}]}}"#).as_bytes(), Format::TraceEvent);
    assert_eq!(stacks(&read.profile, "samples"), ["main 1", "main;leaf 2"]);
    assert_noted(&read, "1 samples are dropped: the file does not have their nodes");
}

#[test]
fn folded_stacks_in_utf_16() {
    let text = String::from_utf8(bytes("stacks.folded")).expect("text");
    let plain = open(&data("stacks.folded"), Format::Folded).profile;
    for is_big in [false, true] {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let encoded: Vec<u8> = units
            .flat_map(|unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect();
        let profile = open_bytes(&encoded, Format::Folded).profile;
        assert_eq!(folded(&profile, "samples"), folded(&plain, "samples"));
    }
}

#[test]
fn folded_stacks_between_lines_that_are_none() {
    let text = "Sampling started\nmain;a 3\nwarning: lost frames\nmain;b;c 4\nmain;b 1\nDone.\n";
    let read = open_bytes(text.as_bytes(), Format::Folded);
    assert_eq!(stacks(&read.profile, "samples"), ["main;a 3", "main;b 1", "main;b;c 4"]);
    assert_noted(&read, "3 lines skipped");
}

#[test]
fn java_cpu_profiles_keep_their_names() {
    let words: [u64; 16] = [0, 3, 1, 10_000, 0, 4, 2, 0x10, 0x20, 1, 1, 0x20, 0, 1, 0, 0];
    let mut file: Vec<u8> = words[..15].iter().flat_map(|word| word.to_le_bytes()).collect();
    file.extend_from_slice(
        b"  0x10 com.example.Work.leaf (Work.java:12)\n0x20 com.example.Main.main (Main.java:7)\n",
    );
    let profile = open_bytes(&file, Format::PprofLegacy).profile;
    let expected = ["com.example.Main.main 1", "com.example.Main.main;com.example.Work.leaf 4"];
    assert_eq!(stacks(&profile, "samples"), expected);
    assert_eq!(total(&profile, "cpu"), 50_000_000);
}

#[test]
fn java_heaps_are_scaled_as_pprof_does_and_keep_their_names() {
    let text = "--- heapz 1 ---\nformat = java\nresolution = bytes\n\
                  1 524288 @ 0x1 0x2\n 0x1 com.example.Alloc.leaf (Alloc.java:12)\n 0x2 com.example.Main.main (Main.java)\n";
    let profile = open_bytes(text.as_bytes(), Format::PprofLegacy).profile;
    // 1 / (1 - e^-1)
    assert_eq!(stacks(&profile, "inuse_space"), ["com.example.Main.main;com.example.Alloc.leaf 829411"]);
}

#[test]
fn threads_that_are_the_same_as_the_one_before_count_too() {
    let text = "--- threadz 1 ---\n\n--- Thread 7f01 (name: a) stack: ---\n  PC: 0x10 0x20\n\
                --- Thread 7f02 (name: b) stack: ---\n    [same as previous thread]\n\
                --- Thread 7f03 (name: c) stack: ---\n --same as previous thread--\n\
                --- Memory map: ---\n";
    let profile = open_bytes(text.as_bytes(), Format::PprofLegacy).profile;
    assert_eq!(total(&profile, "thread"), 3);
}
