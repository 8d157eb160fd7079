//! Details that tools write but a plain reading of the format would miss, in small hand-made files.

mod support;

use flamelet_formats::{ErrorKind, Format, FormatOptions};
use flamelet_profile::Profile;
use support::{folded, open_bytes, total};

/// The stacks of one value as lines, sorted.
#[track_caller]
fn stacks(profile: &Profile, kind: &str) -> Vec<String> {
    folded(profile, kind).iter().map(|(stack, value)| format!("{stack} {value}")).collect()
}

/// The only line of the function `name`: its file, line and column.
#[track_caller]
fn place<'a>(profile: &'a Profile, name: &str) -> (&'a str, i64, i64) {
    let lines = profile.locations().iter().flat_map(|location| profile.lines_of(location));
    let mut places = lines.filter_map(|line| {
        let function = profile.function(line.function?);
        (profile.string(function.name) == name)
            .then(|| (profile.string(function.filename), line.line, line.column))
    });
    places.next().unwrap_or_else(|| panic!("there is no {name}"))
}

/// A trace event: `ph`, `name` and `ts`, then its other fields.
fn event(ph: &str, name: &str, ts: u32, rest: &str) -> String {
    format!(r#"{{"ph":"{ph}","name":"{name}","ts":{ts},"pid":1,{rest}}}"#)
}

fn trace(events: &[String]) -> flamelet_formats::Read {
    open_bytes(format!("[{}]", events.join(",\n")).as_bytes(), Format::TraceEvent)
}

#[test]
fn asynchronous_spans_end_on_any_thread() {
    // As tracing-chrome writes them: the id is the number of the outermost span, the category the module's name.
    let read = trace(&[
        event("b", "request", 0, r#""tid":1,"id":9007199254740993,"cat":"server""#),
        event("b", "request", 5, r#""tid":1,"id":9007199254740992,"cat":"server""#),
        event("b", "query", 20, r#""tid":2,"id":9007199254740993,"cat":"database""#),
        event("e", "query", 50, r#""tid":3,"id":9007199254740993,"cat":"database""#),
        event("e", "request", 100, r#""tid":2,"id":9007199254740993,"cat":"server""#),
        event("e", "request", 1005, r#""tid":2,"id":9007199254740992,"cat":"server""#),
        event("X", "main", 0, r#""tid":1,"dur":5000"#),
    ]);
    let expected = ["main 5000000", "request 1070000", "request;query 30000"];
    assert_eq!(stacks(&read.profile, "time"), expected);
    assert_eq!(read.notes, [""; 0]);
}

#[test]
fn asynchronous_spans_end_by_name_and_do_not_mix_with_those_of_threads() {
    let read = trace(&[
        event("B", "outer", 0, r#""tid":1"#),
        event("b", "first", 10, r#""tid":1,"cat":"net","id2":{"local":"0x1"}"#),
        event("b", "second", 20, r#""tid":1,"cat":"net","id2":{"local":"0x1"}"#),
        event("b", "other", 20, r#""tid":1,"cat":"disk","id2":{"local":"0x1"}"#),
        event("E", "outer", 100, r#""tid":1"#),
        event("e", "first", 400, r#""tid":1,"cat":"net","id2":{"local":"0x1"}"#),
        event("e", "second", 400, r#""tid":1,"cat":"net","id2":{"local":"0x1"}"#),
        event("e", "other", 520, r#""tid":1,"cat":"disk","id2":{"local":"0x1"}"#),
        event("b", "all", 0, r#""tid":1,"cat":"net","id2":{"global":"0x1"}"#),
        r#"{"ph":"e","name":"all","ts":30,"pid":2,"tid":1,"cat":"net","id2":{"global":"0x1"}}"#.into(),
    ]);
    let expected = ["all 30000", "first 10000", "first;second 380000", "other 500000", "outer 100000"];
    assert_eq!(stacks(&read.profile, "time"), expected);
    assert_eq!(read.notes, [""; 0]);
}

#[test]
fn the_places_of_spans_stand_in_the_event_or_in_its_arguments() {
    let read = trace(&[
        event("X", "in_event", 0, r#""tid":1,"dur":1,".file":"src/a.rs",".line":12"#),
        event("X", "in_args", 5, r#""tid":1,"dur":1,"args":{"[file]":"src/b.rs","[line]":34}"#),
    ]);
    assert_eq!(place(&read.profile, "in_event"), ("src/a.rs", 12, 0));
    assert_eq!(place(&read.profile, "in_args"), ("src/b.rs", 34, 0));
}

#[test]
fn frames_of_the_crate_dhat_have_a_column() {
    let file = r#"{"dhatFileVersion":2,"mode":"rust-heap","verb":"Allocated","bklt":true,"bkacc":false,
        "tu":"µs","Mtu":"s","tuth":10,"cmd":"x","pid":1,"tg":1,"te":2,
        "pps":[{"tb":100,"tbk":1,"tl":1,"mb":100,"mbk":1,"gb":100,"gbk":1,"eb":0,"ebk":0,"fs":[1,2,3,4]}],
        "ftbl":["[root]","0x10: app::work (src/main.rs:237:9)","0x20: unknown (???:0:0)",
                "0x30: in_c (main.c:12)","0x40: on_windows (C:\\src\\main.rs:7:8)"]}"#;
    let profile = open_bytes(file.as_bytes(), Format::Dhat).profile;
    assert_eq!(place(&profile, "app::work"), ("src/main.rs", 237, 9));
    assert_eq!(place(&profile, "unknown"), ("", 0, 0));
    assert_eq!(place(&profile, "in_c"), ("main.c", 12, 0));
    assert_eq!(place(&profile, "on_windows"), ("C:\\src\\main.rs", 7, 8));
}

/// A profile as samply saves it: names are addresses, in a module, outside of all, and of generated code.
const SAMPLY: &str = r#"{"meta":{"interval":1,"startTime":0,"product":"app","symbolicated":false,
    "preprocessedProfileVersion":49},
    "libs":[{"name":"server","path":"/bin/server","codeId":"abcd"}],
    "threads":[{"name":"t","pid":"1","tid":"1",
        "samples":{"length":1,"stack":[2],"time":[1.0],"weight":[1],"weightType":"samples"},
        "stackTable":{"length":3,"frame":[0,1,2],"prefix":[null,0,1]},
        "frameTable":{"length":3,"address":[26000,-1,-1],"func":[0,1,2],"line":[null,null,null]},
        "funcTable":{"length":3,"name":[0,1,2],"resource":[0,-1,-1],"fileName":[null,null,null]},
        "resourceTable":{"length":1,"lib":[0],"name":[0]},"stringArray":["0x6590","0x7f00","generated"]}]}"#;

#[test]
fn addresses_that_samply_saves_can_get_names_later() {
    let profile = open_bytes(SAMPLY.as_bytes(), Format::Firefox).profile;
    let stack = profile.stack(profile.sample(0).stack);
    let [generated, outside, inside] = stack else { panic!("{} frames", stack.len()) };
    assert_eq!(profile.lines(*generated).len(), 1);
    assert!(profile.lines(*outside).is_empty() && profile.lines(*inside).is_empty());
    assert_eq!((profile.location(*outside).mapping, profile.location(*outside).address), (None, 0x7f00));
    let location = profile.location(*inside);
    assert_eq!(location.address, 26000);
    let mapping = profile.mapping(location.mapping.expect("a module"));
    assert_eq!((profile.string(mapping.filename), mapping.symbols.functions), ("/bin/server", false));
    assert_eq!((mapping.start, mapping.limit, mapping.offset), (0, 0, 0));
}

/// A cpuprofile as V8 wrote it until 2016, a chain of `depth` calls below the root; `rest` are the fields beside it.
fn nested(depth: usize, rest: &str) -> String {
    let open = |id: usize| {
        let name = if id == 1 { "(root)".into() } else { format!("f{id}") };
        format!(
            r#"{{"functionName":"{name}","url":"a.js","lineNumber":1,"hitCount":0,"id":{id},"children":["#
        )
    };
    let chain: String = (1..=depth + 1).map(open).collect();
    format!(r#"{{"head":{chain}{},{rest}}}"#, "]}".repeat(depth + 1))
}

#[test]
fn nested_cpuprofiles_are_as_deep_as_stacks_are() {
    // Start and end are seconds, the times of samples microseconds of the same clock.
    let times = r#""startTime":10,"endTime":10.0005,"samples":[256,256],"timestamps":[10000100,10000300]"#;
    let profile = open_bytes(nested(255, times).as_bytes(), Format::CpuProfile).profile;
    assert_eq!(profile.stack(profile.sample(0).stack).len(), 255);
    assert_eq!((total(&profile, "samples"), total(&profile, "time")), (2, 400_000));
    assert_eq!(profile.header.duration_nanos, 500_000);
    // Time and memory depend on its size, not on its depth.
    let absurd = nested(100_000, r#""startTime":0,"samples":[100001]"#);
    let profile = open_bytes(absurd.as_bytes(), Format::CpuProfile).profile;
    assert_eq!(profile.stack(profile.sample(0).stack).len(), 100_000);
}

#[test]
fn samples_of_v8_come_out_of_order() {
    let node = |id: u32, name: &str, rest: &str| {
        format!(r#"{{"id":{id},"callFrame":{{"functionName":"{name}"}}{rest}}}"#)
    };
    let nodes = [node(1, "(root)", r#","children":[2,3]"#), node(2, "first", ""), node(3, "second", "")];
    let file = format!(
        r#"{{"nodes":[{}],"startTime":0,"endTime":2000,"samples":[2,2,3],"timeDeltas":[0,1000,-900]}}"#,
        nodes.join(",")
    );
    let profile = open_bytes(file.as_bytes(), Format::CpuProfile).profile;
    assert_eq!(stacks(&profile, "time"), ["first 1100000", "second 900000"]);
    let times: Vec<u64> = profile.timeline.unwrap().events.iter().map(|event| event.time).collect();
    assert_eq!(times, [0, 100_000, 1_000_000]);
}

#[test]
fn the_first_folded_stack_may_be_long() {
    let long = vec!["x".repeat(700); 200].join(";");
    for file in
        [format!("{long} 3\nmain 4\n"), format!("# a comment\n{long} 3\nmain 4\n"), format!("{long} 7")]
    {
        assert_eq!(total(&open_bytes(file.as_bytes(), Format::Folded).profile, "samples"), 7);
    }
    let differential = format!("{long} 3 4\nmain 1 2\n");
    assert_eq!(total(&open_bytes(differential.as_bytes(), Format::Folded).profile, "after"), 6);
    let error = flamelet_formats::read(long.as_bytes(), &FormatOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownFormat);
}
