//! What receivers get, read again by the readers of those formats.

use flamelet_formats::FormatOptions;
use flamelet_profile::protobuf::bytes_field;
use flamelet_profile::{LabelSetId, Limits, Profile, ProfileBuilder, pprof};
use flamelet_remote::push::{Protocol, Series, name_of, prepare};
use std::io::Read;

/// Two stacks with labels, in a program with a build id.
fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let program = builder.file_mapping(0x1000..0x9000, 0x200, "/bin/checkout", "abcdef");
    let labels = [builder.text_label("route", "/buy"), builder.number_label("bytes", 7, "bytes")];
    let labels = builder.labels(&labels);
    let [main, pay] = ["main", "pay"].map(|name| builder.named_function(name, "src/main.rs"));
    let line = |function| flamelet_profile::Line { function: Some(function), line: 12, column: 0 };
    let main = builder.location(Some(program), 0x1100, &[line(main)]);
    let pay = builder.location(Some(program), 0x1200, &[line(pay)]);
    let (short, long) = (builder.stack(&[main]), builder.stack(&[pay, main]));
    builder.sample(short, LabelSetId::EMPTY, &[1, 10]);
    builder.sample(long, labels, &[3, 30]);
    builder.set_period("cpu", "nanoseconds", 10);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (1_794_700_800_000_000_000, 10_000_000_000);
    builder.finish()
}

fn series() -> Series<'static> {
    Series { name: "process_cpu", service: "checkout", labels: &[] }
}

/// Returns each sample as its names, labels and values.
fn rows(profile: &Profile) -> Vec<String> {
    let mut rows: Vec<String> = profile
        .samples()
        .map(|sample| {
            let names: Vec<String> = profile
                .stack(sample.stack)
                .iter()
                .flat_map(|&id| profile.lines(id))
                .filter_map(|line| {
                    Some(format!("{}:{}", profile.string(profile.function(line.function?).name), line.line))
                })
                .collect();
            let labels: Vec<String> = profile
                .labels(sample.labels)
                .iter()
                .map(|label| {
                    let [key, text, unit] = [label.key, label.text, label.unit].map(|id| profile.string(id));
                    format!("{key}={text}{}{unit}", label.number)
                })
                .collect();
            format!("{} {} {:?}", names.join(";"), labels.join(","), sample.values)
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn otlp_is_read_as_the_same_profile() {
    let profile = profile();
    let bodies = Protocol::Otlp.bodies(&profile, &series()).expect("written");
    assert_eq!(bodies.len(), 1);
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&*bodies[0]).read_to_end(&mut message).expect("gzip");
    let read = flamelet_formats::read(&*message, &FormatOptions::default()).expect("OTLP").profile;
    assert_eq!(rows(&read), rows(&profile));
    assert_eq!(read.header.time_nanos, profile.header.time_nanos);
    assert_eq!(read.header.duration_nanos, profile.header.duration_nanos);
    let mapping = &read.mappings()[0];
    assert_eq!((mapping.start, mapping.limit, mapping.offset), (0x1000, 0x9000, 0x200));
    assert_eq!(read.string(mapping.build_id), "abcdef");
    let text = String::from_utf8_lossy(&message).into_owned();
    assert!(text.contains("service.name") && text.contains("checkout"));
}

#[test]
fn otlp_links_samples_to_their_spans() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let function = builder.named_function("pay", "src/main.rs");
    let line = flamelet_profile::Line { function: Some(function), line: 12, column: 0 };
    let location = builder.location(None, 0x1100, &[line]);
    let stack = builder.stack(&[location]);
    // The second is no span of OpenTelemetry: it stays as it is.
    for (trace, span) in [(TRACE, SPAN), ("7", SPAN)] {
        let labels = [("route", "/buy"), ("trace_id", trace), ("span_id", span)];
        let labels = labels.map(|(key, text)| builder.text_label(key, text));
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[1, 10]);
    }
    let profile = builder.finish();
    let bodies = Protocol::Otlp.bodies(&profile, &series()).expect("written");
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&*bodies[0]).read_to_end(&mut message).expect("gzip");
    let link = [
        0x0a, 16, 0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31,
        0x9c,
    ];
    assert!(message.windows(link.len()).any(|part| part == link), "the trace is in the table of links");
    let read = flamelet_formats::read(&*message, &FormatOptions::default()).expect("OTLP").profile;
    let labels = |profile: &Profile| {
        let sets = profile.samples().map(|sample| {
            let text = |label: &flamelet_profile::Label| {
                format!("{}={}", profile.string(label.key), profile.string(label.text))
            };
            let mut texts: Vec<String> = profile.labels(sample.labels).iter().map(text).collect();
            texts.sort();
            texts
        });
        let mut sets: Vec<Vec<String>> = sets.collect();
        sets.sort();
        sets
    };
    assert_eq!(labels(&read), labels(&profile));
}

#[test]
fn kinds_have_the_names_that_receivers_know() {
    let named = |kinds: &[(&str, &str)]| name_of(&ProfileBuilder::new(kinds).finish());
    assert_eq!(named(&[("samples", "count"), ("cpu", "nanoseconds")]), "process_cpu");
    assert_eq!(named(&[("alloc_objects", "count"), ("inuse_space", "bytes")]), "memory");
    assert_eq!(named(&[("alloc_objects", "count")]), "memory");
    assert_eq!(named(&[("delay", "nanoseconds")]), "block");
    assert_eq!(named(&[("contentions", "count"), ("delay", "nanoseconds")]), "block");
    assert_eq!(named(&[("awaits", "count"), ("delay", "nanoseconds")]), "await");
    assert_eq!(named(&[("polls", "count"), ("delay", "nanoseconds")]), "blocked");
}

fn field(message: &[u8], wanted: u32) -> Vec<u8> {
    let field = bytes_field(message, wanted).expect("a message");
    assert!(!field.is_empty(), "no field {wanted}");
    field.to_vec()
}

#[test]
fn pyroscope_gets_only_labels_that_it_takes() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    let long = "é".repeat(2000);
    let many: Vec<String> = (0..40).map(|number| format!("label {number}")).collect();
    let sets: [Vec<(&str, &str)>; 3] = [
        vec![("x-request", "a"), ("x request", "b"), ("service_name", "other"), ("http.route", "/buy")],
        vec![("query", &long)],
        many.iter().map(|name| (&**name, "v")).collect(),
    ];
    for (number, set) in sets.iter().enumerate() {
        let labels: Vec<_> = set.iter().map(|(key, text)| builder.text_label(key, text)).collect();
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[number as i64 + 1]);
    }
    let profile = builder.finish();
    let zone = [("zone".to_owned(), "b".to_owned())];
    let series = Series { labels: &zone, ..series() };
    let bodies = Protocol::Pyroscope.bodies(&profile, &series).expect("written");
    let sent = field(&field(&field(&bodies[0], 1), 2), 1);
    let sent = pprof::read(&sent, &Limits::SERVICE).expect("pprof");
    assert_eq!(sent.total(0), 6);
    let labels = |row: usize| {
        let labels = sent.labels(sent.sample(row).labels).iter();
        labels.map(|label| (sent.string(label.key), sent.string(label.text))).collect::<Vec<_>>()
    };
    assert_eq!(labels(0), [("x_request", "a"), ("http_route", "/buy")]);
    assert_eq!(labels(1).len(), 1);
    assert_eq!(labels(1)[0].1.len(), 2048);
    // The series has four: __name__, __delta__, service_name and zone.
    assert_eq!(labels(2).len(), 30 - 4);
    assert_eq!(labels(2)[0], ("label_0", "v"));
    // The others have no such limits, and get the labels as they are.
    for protocol in [Protocol::Parca, Protocol::Otlp] {
        assert_eq!(protocol.bodies(&profile, &series).expect("written").len(), 1);
    }
}

#[test]
fn traces_are_not_sent_to_pyroscope_and_spans_are() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    for number in 0..1000 {
        let texts = [("route", "/buy".to_owned()), ("trace_id", format!("{number:032x}"))];
        let mut labels = texts.map(|(key, text)| builder.text_label(key, &text)).to_vec();
        labels.push(builder.text_label("span_id", &format!("{number:016x}")));
        labels.push(builder.text_label("user", &number.to_string()));
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[1]);
    }
    let profile = builder.finish();
    let bodies = Protocol::Pyroscope.bodies(&profile, &series()).expect("written");
    let sent = pprof::read(&field(&field(&field(&bodies[0], 1), 2), 1), &Limits::SERVICE).expect("pprof");
    assert_eq!((sent.total(0), sent.sample_count()), (1000, 1000));
    for sample in sent.samples() {
        let keys = sent.labels(sample.labels).iter().map(|label| sent.string(label.key));
        assert_eq!(keys.collect::<Vec<_>>(), ["route", "span_id"]);
    }
}

#[test]
fn of_memory_only_what_counts_is_sent() {
    let mut builder = ProfileBuilder::new(&[
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ]);
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[10, 1000, 2, 200]);
    builder.header_mut().duration_nanos = 7;
    let window = builder.finish();
    let prepared = |protocol, kind| {
        let mut profile = window.clone();
        assert_eq!(prepare(protocol, kind, &mut profile), "memory");
        let kinds = profile.sample_types().iter().map(|value| profile.string(value.kind).to_owned());
        (
            kinds.collect::<Vec<_>>().join(" "),
            profile.sample(0).values.to_vec(),
            profile.header.duration_nanos,
        )
    };
    let in_use = "inuse_objects inuse_space".to_owned();
    let allocated = "alloc_objects alloc_space".to_owned();
    assert_eq!(prepared(Protocol::Pyroscope, "heap"), (in_use.clone(), vec![2, 200], 7));
    assert_eq!(prepared(Protocol::Parca, "heap"), (in_use, vec![2, 200], 0));
    assert_eq!(prepared(Protocol::Otlp, "allocs"), (allocated.clone(), vec![10, 1000], 7));
    assert_eq!(prepared(Protocol::Parca, "allocs"), (allocated, vec![10, 1000], 7));
}
