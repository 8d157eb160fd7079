//! Every writer's output, read back, equals what the format can hold.

mod support;

use std::collections::BTreeMap;

use flamelet_formats::{ErrorKind, Format, FormatOptions, read_otlp, write};
use flamelet_profile::{
    Event, Function, LabelSetId, Line, Mapping, Profile, ProfileBuilder, Thread, ThreadId, Timeline,
};
use support::{folded, open_bytes, total};

/// Two threads, inlined frames, addresses, a recursion, a name that text formats must be careful with.
fn profile(timeline: bool) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.string("/usr/bin/server");
    let build_id = builder.string("deadbeef00112233445566778899aabbccddeeff");
    let mapping =
        Mapping { start: 0x1000, limit: 0x9000, offset: 0, filename, build_id, ..Mapping::default() };
    let mapping = Some(builder.mapping(mapping));
    let names = ["main", "serve<(A, B)>", "parse [x]", "<Vec<T> as Drop>::drop", "leaf  two spaces"];
    let functions: Vec<_> = names
        .iter()
        .map(|name| {
            let (name, filename) = (builder.string(name), builder.string("src/main.rs"));
            builder.function(Function { name, filename, ..Function::default() })
        })
        .collect();
    let line = |at: usize, line: i64| Line { function: Some(functions[at]), line, column: 0 };
    let main = builder.location(mapping, 0x1100, &[line(0, 10)]);
    let serve = builder.location(mapping, 0x1200, &[line(2, 31), line(1, 30)]);
    let drop = builder.location(mapping, 0x1300, &[line(3, 40)]);
    let leaf = builder.location(mapping, 0x1400, &[line(4, 50)]);
    let stacks = [vec![leaf, serve, main], vec![drop, drop, serve, main], vec![main]];
    let label_sets = [("io", 7), ("main", 6)].map(|(name, tid)| {
        let labels = [builder.text_label("thread", name), builder.number_label("tid", tid, "")];
        builder.labels(&labels)
    });
    let mut events = Vec::new();
    for (row, stack) in stacks.iter().enumerate() {
        let stack = builder.stack(stack);
        let thread = row % 2;
        let count = row as i64 + 1;
        builder.sample(stack, label_sets[thread], &[count, count * 1_000_000]);
        for number in 0..count {
            let time = (row as u64 * 3 + number as u64) * 1_000_000;
            let thread = ThreadId::from_index(thread);
            events.push(Event { time, sample: row as u32, thread, value: 1_000_000 });
        }
    }
    events.sort_by_key(|event| event.time);
    let process = builder.string("server");
    let threads = [("io", 7), ("main", 6)].map(|(name, tid)| Thread {
        pid: 6,
        tid,
        name: builder.string(name),
        process,
    });
    let start_nanos = 1_700_000_000_000_000_000;
    let timeline =
        timeline.then(|| Timeline { start_nanos, threads: threads.to_vec(), events, value_type: 1 });
    builder.finish_with(timeline, None)
}

fn through(profile: &Profile, format: Format) -> (Profile, Vec<String>) {
    let mut bytes = Vec::new();
    let notes = write(profile, format, &mut bytes, &FormatOptions::default()).expect("it can be written");
    (open_bytes(&bytes, format).profile, notes)
}

/// How long each thread ran in each stack.
fn by_thread(profile: &Profile) -> BTreeMap<(String, String), i64> {
    let timeline = profile.timeline.as_ref().expect("a timeline");
    let mut sums = BTreeMap::new();
    for event in &timeline.events {
        let stack = support::names(profile, profile.sample(event.sample as usize).stack).join(";");
        let thread = timeline.threads[event.thread.index()];
        *sums.entry((profile.string(thread.name).to_owned(), stack)).or_default() += event.value;
    }
    sums
}

#[test]
fn pprof_keeps_everything() {
    let before = profile(true);
    let (after, notes) = through(&before, Format::Pprof);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(folded(&after, "cpu"), folded(&before, "cpu"));
    assert_eq!(by_thread(&after), by_thread(&before));
}

#[test]
fn folded_keeps_names_and_one_value() {
    let before = profile(false);
    let (after, notes) = through(&before, Format::Folded);
    assert_eq!(folded(&after, "samples"), folded(&before, "cpu"));
    assert!(notes.iter().any(|note| note.contains("dropped samples")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("labels")), "{notes:?}");
}

#[test]
fn speedscope_keeps_threads_and_order() {
    let before = profile(true);
    let (after, _) = through(&before, Format::Speedscope);
    assert_eq!(folded(&after, "time"), folded(&before, "cpu"));
    assert_eq!(by_thread(&after), by_thread(&before));
    let (after, notes) = through(&profile(false), Format::Speedscope);
    assert_eq!(folded(&after, "time"), folded(&before, "cpu"));
    assert!(notes.iter().any(|note| note.contains("labels")), "{notes:?}");
}

/// When each thread of each process ran.
fn times(profile: &Profile) -> Vec<(u64, u64, String, String, u64)> {
    let timeline = profile.timeline.as_ref().expect("a timeline");
    let moment = |event: &Event| {
        let thread = timeline.threads[event.thread.index()];
        let [name, process] = [thread.name, thread.process].map(|id| profile.string(id).to_owned());
        (thread.pid, thread.tid, name, process, event.time)
    };
    let mut times: Vec<_> = timeline.events.iter().map(moment).collect();
    times.sort();
    times
}

#[test]
fn speedscope_and_firefox_keep_processes_threads_and_times_of_every_type() {
    for timed_type in [0, 1] {
        let mut before = profile(true);
        let other = before.intern("client");
        let timeline = before.timeline.as_mut().expect("a timeline");
        (timeline.threads[0].pid, timeline.threads[0].process) = (5, other);
        timeline.value_type = timed_type;
        timeline.events.iter_mut().filter(|_| timed_type == 0).for_each(|event| event.value = 1);
        for format in [Format::Speedscope, Format::Firefox] {
            let (after, _) = through(&before, format);
            assert_eq!(times(&after), times(&before), "{format}, times of type {timed_type}");
            let kind = if format == Format::Speedscope { "time" } else { "cpu" };
            assert_eq!(folded(&after, kind), folded(&before, "cpu"), "{format}");
        }
    }
}

#[test]
fn firefox_keeps_threads_modules_and_lines() {
    let before = profile(true);
    let (after, _) = through(&before, Format::Firefox);
    assert_eq!(by_thread(&after), by_thread(&before));
    assert_eq!(total(&after, "cpu"), total(&before, "cpu"));
    let mapping = after.mappings()[0];
    assert_eq!(after.string(mapping.filename), "/usr/bin/server");
    assert_eq!(after.string(mapping.build_id), "deadbeef00112233445566778899aabbccddeeff");
    assert_eq!(after.timeline.unwrap().start_nanos, 1_700_000_000_000_000_000);
    let (after, _) = through(&profile(false), Format::Firefox);
    assert_eq!(folded(&after, "cpu"), folded(&before, "cpu"));
}

#[test]
fn cpuprofile_keeps_the_tree() {
    let (after, _) = through(&profile(false), Format::CpuProfile);
    assert_eq!(folded(&after, "time"), folded(&profile(false), "cpu"));
    let (after, notes) = through(&profile(true), Format::CpuProfile);
    assert_eq!(total(&after, "time"), total(&profile(true), "cpu"));
    assert!(notes.iter().any(|note| note.contains("threads")), "{notes:?}");
}

#[test]
fn chrome_trace_keeps_times_of_functions() {
    let before = profile(true);
    let (after, _) = through(&before, Format::TraceEvent);
    let own_time = |stack: &str| folded(&after, "time").get(stack).copied().unwrap_or(0);
    for (stack, nanos) in folded(&before, "cpu") {
        assert_eq!(own_time(&stack), nanos, "{stack}");
    }
    let refused = write(&profile(false), Format::TraceEvent, &mut Vec::new(), &FormatOptions::default());
    assert!(refused.unwrap_err().to_string().contains("needs times"));
}

#[test]
fn callgrind_keeps_own_costs_and_calls() {
    let before = profile(false);
    let (after, _) = through(&before, Format::Callgrind);
    let costs = |profile: &Profile, kind: &str| support::flat_and_cumulative(profile, kind);
    assert_eq!(costs(&after, "cpu"), costs(&before, "cpu"));
    assert_eq!(costs(&after, "samples"), costs(&before, "samples"));
}

#[test]
fn otlp_keeps_everything_but_comments() {
    for format in [Format::Otlp, Format::OtlpJson] {
        let before = profile(true);
        let (after, _) = through(&before, format);
        assert_eq!(folded(&after, "cpu"), folded(&before, "cpu"), "{format}");
        assert_eq!(folded(&after, "samples"), folded(&before, "samples"), "{format}");
        assert_eq!(by_thread(&after), by_thread(&before), "{format}");
        assert_eq!(after.mappings(), {
            let mut expected = before.mappings().to_vec();
            expected[0].filename = after.strings().find("/usr/bin/server").unwrap();
            expected[0].build_id = after.strings().find("deadbeef00112233445566778899aabbccddeeff").unwrap();
            expected
        });
    }
}

#[test]
fn what_is_sent_by_otlp_is_read_resource_by_resource() {
    let profile = profile(false);
    for (format, is_json) in [(Format::Otlp, false), (Format::OtlpJson, true)] {
        let mut bytes = Vec::new();
        write(&profile, format, &mut bytes, &FormatOptions::default()).expect("written");
        let resources = read_otlp(&bytes, is_json, &FormatOptions::default()).expect("read");
        let [resource] = &resources[..] else { panic!("one resource: {resources:?}") };
        let [read] = &resource.profiles[..] else { panic!("both values in one profile: {resources:?}") };
        assert_eq!(read.sample_types().len(), 2);
        for kind in ["samples", "cpu"] {
            assert_eq!(folded(read, kind), folded(&profile, kind));
        }
    }
    assert!(read_otlp(b"", false, &FormatOptions::default()).expect("empty").is_empty());
    assert!(read_otlp(b"{}", true, &FormatOptions::default()).expect("empty").is_empty());
    assert!(read_otlp(b"\xff", false, &FormatOptions::default()).is_err());
    // A thousand profiles of different times are a thousand profiles; very many are refused.
    let of_times = |count: usize| {
        let profiles: Vec<String> = (0..count).map(|time| format!("{{\"timeUnixNano\":{time}}}")).collect();
        let text = format!(
            "{{\"resourceProfiles\":[{{\"scopeProfiles\":[{{\"profiles\":[{}]}}]}}]}}",
            profiles.join(",")
        );
        read_otlp(text.as_bytes(), true, &FormatOptions::default())
    };
    assert_eq!(of_times(1000).expect("read")[0].profiles.len(), 1000);
    assert_eq!(of_times(10_001).expect_err("too many").kind(), ErrorKind::TooLarge);
}

/// A sample of a span is a link in the dictionary, where other programs look for it.
#[test]
fn otlp_links_samples_to_spans() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";
    let with_ids = |trace: &str, span: &str| {
        let mut profile = profile(true);
        profile.label_all("trace_id", trace);
        profile.label_all("span_id", span);
        profile
    };
    let linked = with_ids(TRACE, SPAN);
    let mut json = Vec::new();
    write(&linked, Format::OtlpJson, &mut json, &FormatOptions::default()).unwrap();
    let json = String::from_utf8(json).unwrap();
    let link = format!("\"linkTable\":[{{}},{{\"traceId\":\"{TRACE}\",\"spanId\":\"{SPAN}\"}}]");
    assert!(json.contains(&link) && json.contains("\"linkIndex\":1"), "{json}");
    assert_eq!(json.matches("trace_id").count(), 0, "not an attribute as well: {json}");
    // What is no id stays an attribute.
    let odd = with_ids("abc", SPAN);
    for (before, format) in [(&linked, Format::Otlp), (&linked, Format::OtlpJson), (&odd, Format::Otlp)] {
        let (after, _) = through(before, format);
        for key in ["trace_id", "span_id"] {
            assert_eq!(label_values(&after, key), label_values(before, key), "{format}");
        }
    }
}

/// The values of a label, one for each sample.
fn label_values(profile: &Profile, key: &str) -> Vec<String> {
    let labels = profile.samples().flat_map(|sample| profile.labels(sample.labels));
    let values =
        labels.filter(|label| profile.string(label.key) == key).map(|label| profile.string(label.text));
    let mut values: Vec<String> = values.map(str::to_owned).collect();
    values.sort();
    values
}

#[test]
fn fractions_and_differences_survive_folded() {
    let text = b"a;b 1.5\na;c 2.25\n";
    let read = open_bytes(text, Format::Folded);
    assert_eq!(total(&read.profile, "samples"), 3750);
    let mut again = Vec::new();
    write(&read.profile, Format::Folded, &mut again, &FormatOptions::default()).unwrap();
    assert_eq!(String::from_utf8(again).unwrap(), "a;b 1.500\na;c 2.250\n");

    let read = open_bytes(b"a;b 1 5\na;c 2 0\n", Format::Folded);
    assert_eq!((total(&read.profile, "before"), total(&read.profile, "after")), (3, 5));
    assert_eq!(read.profile.default_sample_index(), 1);
}

/// The profile above with a comment, and a label that is none of the thread's.
fn laden_profile() -> Profile {
    let mut profile = profile(true);
    profile.label_all("request", "checkout");
    profile.add_comment("a remark");
    profile
}

#[test]
fn every_writer_says_what_it_drops() {
    let lost: [(Format, &[&str]); 10] = [
        (Format::Pprof, &[]),
        (Format::Otlp, &["comments become one attribute of the resource"]),
        (Format::OtlpJson, &["comments become one attribute of the resource"]),
        (
            Format::Folded,
            &[
                "the format has only one value: kept cpu, dropped samples",
                "labels are dropped",
                "lines, files and addresses are dropped",
                "the times of samples are dropped",
                "comments are dropped",
            ],
        ),
        (
            Format::Speedscope,
            &[
                "the format has only one value: kept cpu, dropped samples",
                "addresses and modules are dropped",
                "comments are dropped",
                "labels are dropped: request",
            ],
        ),
        (
            Format::Firefox,
            &[
                "the format has only one value: kept cpu, dropped samples",
                "comments are dropped",
                "labels are dropped: request",
            ],
        ),
        (
            Format::CpuProfile,
            &[
                "the format has only one value: kept cpu, dropped samples",
                "addresses and modules are dropped",
                "comments are dropped",
                "labels are dropped: request",
                "threads become the first level of the tree",
            ],
        ),
        (
            Format::TraceEvent,
            &[
                "the format has only one value: kept cpu, dropped samples",
                "addresses, lines and modules are dropped",
                "labels are dropped: request",
                "comments are dropped",
            ],
        ),
        (
            Format::Callgrind,
            &[
                "labels are dropped",
                "the times of samples are dropped",
                "addresses are dropped",
                "comments are dropped",
                "the number of calls is unknown: each sample counts as one call",
            ],
        ),
        (
            Format::Csv,
            &[
                "lines, files and addresses are dropped",
                "the times of samples are dropped",
                "comments are dropped",
            ],
        ),
    ];
    let mut written: Vec<Format> = lost.iter().map(|(format, _)| *format).collect();
    written.sort();
    let writable = Format::all().iter().copied().filter(|format| format.can_write());
    assert_eq!(written, writable.collect::<Vec<_>>(), "every writer is in the list");
    for (format, expected) in lost {
        let notes = write(&laden_profile(), format, &mut Vec::new(), &FormatOptions::default()).unwrap();
        assert_eq!(notes, expected, "{format}");
    }
}

#[test]
fn csv_is_a_table() {
    let mut profile = profile(false);
    profile.label_all("request", "a, \"b\"");
    let mut text = Vec::new();
    write(&profile, Format::Csv, &mut text, &FormatOptions::default()).unwrap();
    let expected = [
        "stack,thread,tid,request,samples/count,cpu/nanoseconds",
        "\"main;serve<(A, B)>;parse [x];leaf  two spaces\",io,7,\"a, \"\"b\"\"\",1,1000000",
        "\"main;serve<(A, B)>;parse [x];<Vec<T> as Drop>::drop;<Vec<T> as Drop>::drop\",main,6,\"a, \"\"b\"\"\",2,2000000",
        "main,io,7,\"a, \"\"b\"\"\",3,3000000",
        "",
    ];
    assert_eq!(String::from_utf8(text).unwrap(), expected.join("\r\n"));
}

#[test]
fn nothing_to_write_is_an_error_and_not_a_panic() {
    let empty = ProfileBuilder::new(&[]).finish();
    for &format in Format::all().iter().filter(|format| format.can_write()) {
        // pprof, callgrind and OTLP can say "nothing"; the others need a value.
        let _ = write(&empty, format, &mut Vec::new(), &FormatOptions::default());
    }
    let options = {
        let mut options = FormatOptions::default();
        options.sample_index = Some(9);
        options
    };
    let refused = write(&profile(false), Format::Folded, &mut Vec::new(), &options).unwrap_err();
    assert_eq!(refused.to_string(), "the profile has no value 9, only 2 values");
    for &format in Format::all().iter().filter(|format| !format.can_write()) {
        assert!(
            write(&profile(false), format, &mut Vec::new(), &FormatOptions::default()).is_err(),
            "{format}"
        );
    }
    let labels = LabelSetId::EMPTY;
    assert!(profile(false).labels(labels).is_empty());
}
