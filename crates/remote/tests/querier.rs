//! Pyroscope's calls, in JSON and in protobuf, on a source whose answers are known.

use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter};
use flamelet_profile::{LabelSetId, Profile, ProfileBuilder, pprof};
use flamelet_remote::querier::{
    Codec, EachTotal, Keep, METHODS, Measured, QueryAnswer, Source, Span, answer, render, unpack,
};
use flamelet_remote::{Result, push};

const TYPE: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
/// The start, in milliseconds since 1970.
const THEN: i64 = 1_794_700_800_000;

/// Six windows of ten seconds: `main;a` for route /a in each, and `main;b` for route /b in every other.
struct Known;

impl Known {
    fn windows() -> impl Iterator<Item = (i64, &'static str, &'static str, i64)> {
        let all = (0..6).flat_map(|number| [(number, "/a", "a", 10), (number, "/b", "b", 5 * (number % 2))]);
        all.map(|(number, route, leaf, value)| (THEN + number * 10_000 + 5000, route, leaf, value))
    }
}

impl Source for Known {
    fn service(&self) -> &str {
        "checkout"
    }

    fn measured(&self, _: Span) -> Result<Vec<Measured>> {
        let pair = |kind: &str, unit: &str| (kind.to_owned(), unit.to_owned());
        Ok(vec![Measured {
            source_name: "cpu".into(),
            name: "process_cpu".into(),
            values: vec![pair("samples", "count"), pair("cpu", "nanoseconds")],
            period: pair("cpu", "nanoseconds"),
        }])
    }

    fn profile(&self, source_name: &str, span: Span, keep: &Keep<'_>) -> Result<Option<Profile>> {
        assert_eq!(source_name, "cpu");
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for (time, route, leaf, value) in Self::windows() {
            if (span.from..span.to).contains(&time) && keep(&[("route", route)]) {
                let frames = [builder.named_frame(leaf), builder.named_frame("main")];
                let stack = builder.stack(&frames);
                builder.merge_sample(stack, LabelSetId::EMPTY, &[value, value * 100]);
            }
        }
        let profile = builder.finish();
        Ok((profile.sample_count() > 0).then_some(profile))
    }

    fn totals(&self, _: &str, span: Span, each: &mut EachTotal<'_>) -> Result<()> {
        for (time, route, _, value) in Self::windows() {
            if (span.from..span.to).contains(&time) && value > 0 {
                each(time, &[("route", route)], &[value, value * 100]);
            }
        }
        Ok(())
    }

    fn extent(&self) -> Result<Option<Span>> {
        Ok(Some(Span { from: THEN, to: THEN + 60_000 }))
    }
}

fn json(method: &str, body: &str) -> String {
    let QueryAnswer { status, content_type, body } = answer(&Known, method, Codec::Json, body.as_bytes());
    assert_eq!((status, content_type), (200, "application/json"), "{}", String::from_utf8_lossy(&body));
    String::from_utf8(body).expect("text")
}

fn proto(method: &str, write: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
    let mut message = MessageWriter::default();
    write(&mut message);
    let QueryAnswer { status, content_type, body } = answer(&Known, method, Codec::Proto, message.as_bytes());
    assert_eq!((status, content_type), (200, "application/proto"), "{}", String::from_utf8_lossy(&body));
    body
}

/// The fields of a message, as text.
fn shown(message: &[u8]) -> Vec<(u32, String)> {
    let mut fields = Fields::new(message);
    let mut all = Vec::new();
    while let Some((number, value)) = fields.next().expect("a message") {
        all.push((
            number,
            match value {
                FieldValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                FieldValue::Varint(number) => number.to_string(),
                FieldValue::Fixed64(bits) => f64::from_bits(bits).to_string(),
                FieldValue::Fixed32(_) => unreachable!("there are none"),
            },
        ));
    }
    all
}

fn times(message: &mut MessageWriter, start: u32, end: u32) {
    message.int(start, THEN);
    message.int(end, THEN + 60_000);
}

#[test]
fn profile_types_labels_and_their_values() {
    let types = json("ProfileTypes", "{}");
    let cpu = r#"{"ID":"process_cpu:cpu:nanoseconds:cpu:nanoseconds","name":"process_cpu","periodType":"cpu","periodUnit":"nanoseconds","sampleType":"cpu","sampleUnit":"nanoseconds"}"#;
    assert!(types.contains(cpu), "{types}");
    let types = shown(&proto("ProfileTypes", |message| times(message, 1, 2)));
    assert_eq!(types.len(), 2);
    let cpu = shown(types[1].1.as_bytes());
    let expected =
        [(1, TYPE), (2, "process_cpu"), (4, "cpu"), (5, "nanoseconds"), (6, "cpu"), (7, "nanoseconds")];
    assert_eq!(cpu, expected.map(|(number, text)| (number, text.to_owned())));
    let names = json("LabelNames", r#"{"matchers":["{route=\"/a\"}"]}"#);
    assert!(names.contains("\"route\",\"service_name\""), "{names}");
    assert_eq!(json("LabelValues", r#"{"name":"route"}"#), r#"{"names":["/a","/b"]}"#);
    let values = proto("LabelValues", |message| {
        message.bytes(1, b"route");
        message.bytes(2, br#"{route!="/a"}"#);
        times(message, 3, 4);
    });
    assert_eq!(shown(&values), [(1, "/b".to_owned())]);
    let series = json("Series", r#"{"labelNames":["service_name","route"]}"#);
    let expected = r#"{"labelsSet":[{"labels":[{"name":"route","value":"/a"},{"name":"service_name","value":"checkout"}]},{"labels":[{"name":"route","value":"/b"},{"name":"service_name","value":"checkout"}]}]}"#;
    assert_eq!(series, expected);
}

#[test]
fn flame_graphs_and_profiles_of_what_is_selected() {
    let body = format!(
        r#"{{"profileTypeID":"{TYPE}","labelSelector":"{{service_name=\"checkout\"}}","start":"{THEN}","end":"{}"}}"#,
        THEN + 60_000
    );
    let expected = r#"{"flamegraph":{"levels":[{"values":["0","7500","0","0"]},{"values":["0","7500","0","1"]},{"values":["0","6000","6000","2","0","1500","1500","3"]}],"maxSelf":"6000","names":["total","main","a","b"],"total":"7500"}}"#;
    assert_eq!(json("SelectMergeStacktraces", &body), expected);
    let flame = proto("SelectMergeStacktraces", |message| {
        message.bytes(1, TYPE.as_bytes());
        message.bytes(2, br#"{route="/b"}"#);
        times(message, 3, 4);
        message.message(7, |selector| selector.message(1, |site| site.bytes(1, b"main")));
    });
    let (_, flame) = Fields::new(&flame).next().expect("read").expect("a flame graph");
    let flame = shown(flame.bytes().expect("a message"));
    let names: Vec<&str> = flame.iter().filter(|field| field.0 == 1).map(|field| &*field.1).collect();
    assert_eq!(names, ["total", "main", "b"]);
    assert!(flame.contains(&(3, "1500".to_owned())), "{flame:?}");
    let profile = proto("SelectMergeProfile", |message| {
        message.bytes(1, TYPE.as_bytes());
        times(message, 3, 4);
    });
    let profile = pprof::decode(&profile, &pprof::Limits::SERVICE).expect("pprof");
    assert_eq!((profile.sample_types().len(), profile.total(0)), (1, 7500), "the requested value");
    assert!(json("SelectMergeProfile", &body).contains(r#""stringTable":["","#));
    let difference = json("Diff", &format!(r#"{{"left":{body},"right":{body}}}"#));
    assert!(difference.contains(r#""leftTicks":"7500","levels""#), "{difference}");
    assert!(difference.contains(r#""total":"15000""#), "{difference}");
}

#[test]
fn values_over_time_lie_in_the_step_that_ends_after_them() {
    let body = |extra: &str| {
        format!(
            r#"{{"profileTypeID":"{TYPE}","labelSelector":"{{}}","start":{THEN},"end":{},"step":20{extra}}}"#,
            THEN + 60_000
        )
    };
    let series = json("SelectSeries", &body(""));
    let point = |seconds: i64, value: f64| {
        format!(r#"{{"timestamp":"{}","value":{value:?}}}"#, THEN + seconds * 1000)
    };
    let points = [point(20, 2500.0), point(40, 2500.0), point(60, 2500.0)].join(",");
    assert_eq!(series, format!(r#"{{"series":[{{"labels":[],"points":[{points}]}}]}}"#));
    let average = json("SelectSeries", &body(r#","aggregation":"TIME_SERIES_AGGREGATION_TYPE_AVERAGE""#));
    assert!(average.contains(&point(20, 1250.0)), "{average}");
    let grouped = proto("SelectSeries", |message| {
        message.bytes(1, TYPE.as_bytes());
        times(message, 3, 4);
        message.bytes(5, b"route");
        message.fixed64(6, 20f64.to_bits());
        message.int(9, 1);
    });
    let series = shown(&grouped);
    assert_eq!(series.len(), 1, "the largest");
    assert!(series[0].1.contains("/a"), "{series:?}");
    let heat = json("SelectHeatmap", &body(""));
    let slot = format!(r#"{{"counts":[1,1],"timestamp":"{}","yMin":[1000.0,1475.0]}}"#, THEN + 20_000);
    assert!(heat.contains(&slot), "{heat}");
    assert_eq!(
        json("GetProfileStats", "{}"),
        format!(
            r#"{{"dataIngested":true,"newestProfileTime":"{}","oldestProfileTime":"{THEN}"}}"#,
            THEN + 60_000
        )
    );
}

#[test]
fn only_stacks_below_a_call_site_count() {
    let ask = |method: &str, site: &[&str], further: &str| {
        let site: Vec<String> = site.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        let body = format!(
            r#"{{"profileTypeID":"{TYPE}","start":{THEN},"end":{},"step":20,"stackTraceSelector":{{"callSite":[{}]}}{further}}}"#,
            THEN + 60_000,
            site.join(",")
        );
        json(method, &body)
    };
    let point = |seconds: i64, value: f64| {
        format!(r#"{{"timestamp":"{}","value":{value:?}}}"#, THEN + seconds * 1000)
    };
    let values = |profile: &str| -> i64 {
        let profile: serde_json::Value = serde_json::from_str(profile).expect("JSON");
        let samples = profile["sample"].as_array().cloned().unwrap_or_default();
        samples.iter().filter_map(|sample| sample["value"][0].as_str()?.parse::<i64>().ok()).sum()
    };
    assert_eq!(values(&ask("SelectMergeProfile", &[], "")), 7500);
    assert_eq!(values(&ask("SelectMergeProfile", &["main", "b"], "")), 1500);
    assert_eq!(values(&ask("SelectMergeProfile", &["b"], "")), 0);
    let series = ask("SelectSeries", &["main", "b"], "");
    let points = [point(20, 500.0), point(40, 500.0), point(60, 500.0)].join(",");
    assert_eq!(series, format!(r#"{{"series":[{{"labels":[],"points":[{points}]}}]}}"#));
    let average = r#","aggregation":"TIME_SERIES_AGGREGATION_TYPE_AVERAGE""#;
    assert!(ask("SelectSeries", &["main", "b"], average).contains(&point(20, 250.0)), "of two windows");
    let grouped = ask("SelectSeries", &["main", "a"], r#","groupBy":["route"]"#);
    assert!(grouped.contains(&point(20, 2000.0)) && grouped.contains(&point(20, 0.0)), "{grouped}");
}

#[test]
fn without_a_time_only_lists_are_answered() {
    for method in ["SelectMergeStacktraces", "SelectMergeProfile", "SelectSeries", "SelectMergeSpanProfile"] {
        for time in ["", r#","start":1"#, r#","end":1"#] {
            let body = format!(r#"{{"profileTypeID":"{TYPE}","step":15{time}}}"#);
            let found = answer(&Known, method, Codec::Json, body.as_bytes());
            let text = String::from_utf8(found.body).expect("text");
            assert_eq!(found.status, 400, "{method}: {text}");
            assert!(text.contains("missing time range in the query"), "{method}: {text}");
        }
    }
    assert!(json("LabelNames", r#"{"start":1}"#).contains("route"));
}

#[test]
fn the_old_render_call() {
    let now = (THEN + 60_000) * 1_000_000;
    let parameters = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let query = format!(r#"{TYPE}{{route="/a"}}"#);
    let found =
        render(&Known, false, &parameters(&[("query", &query), ("from", "now-1h"), ("until", "now")]), now);
    let text = String::from_utf8(found.body).expect("text");
    assert!(found.status == 200 && text.contains(r#""numTicks":6000"#), "{text}");
    assert!(
        text.contains(r#""names":["total","main","a"]"#) && text.contains(r#""format":"single""#),
        "{text}"
    );
    assert!(text.contains(r#""groups":null"#), "{text}");
    let asked = [("query", TYPE), ("from", "1794700800"), ("until", "1794700859.999"), ("groupBy", "route")];
    let found = render(&Known, false, &parameters(&asked), now);
    let value: serde_json::Value = serde_json::from_slice(&found.body).expect("JSON");
    // Steps of 15 seconds; the windows are at 5, 15, 25, 35, 45 and 55.
    let timeline = |samples: [i64; 4]| serde_json::json!({"startTime": THEN / 1000, "samples": samples, "durationDelta": 15, "watermarks": null});
    assert_eq!(value["timeline"], timeline([1000, 2500, 1500, 2500]), "{value}");
    assert_eq!(value["flamebearer"]["numTicks"], 7500);
    assert_eq!(value["groups"]["/a"], timeline([1000, 2000, 1000, 2000]), "{value}");
    assert_eq!(value["groups"]["/b"], timeline([0, 500, 500, 500]), "{value}");
    let always = [("query", TYPE), ("from", "1"), ("until", "now"), ("groupBy", "zone")];
    let found = render(&Known, false, &parameters(&always), now);
    let value: serde_json::Value = serde_json::from_slice(&found.body).expect("JSON");
    let samples = value["groups"]["*"]["samples"].as_array().expect("a list");
    assert_eq!(samples.iter().filter_map(serde_json::Value::as_i64).sum::<i64>(), 7500);
    assert!(samples.len() <= 1500, "{}", samples.len());
    let sides =
        [("leftQuery", &*query), ("leftFrom", "now-1h"), ("rightQuery", TYPE), ("rightFrom", "now-1h")];
    let found = render(&Known, true, &parameters(&sides), now);
    let text = String::from_utf8(found.body).expect("text");
    assert!(text.contains(r#""leftTicks":6000"#) && text.contains(r#""rightTicks":7500"#), "{text}");
    assert_eq!(render(&Known, false, &[], now).status, 400);
}

#[test]
fn bad_requests_are_connect_errors() {
    let many = format!(r#"{{"profileTypeID":"{TYPE}","start":1,"end":{THEN},"step":1}}"#);
    for (method, body, status) in [
        ("SelectMergeStacktraces", r#"{"profileTypeID":"cpu"}"#, 400),
        ("SelectMergeStacktraces", r#"{"profileTypeID":"a:b:c:d:e","start":"x"}"#, 400),
        ("SelectSeries", r#"{"profileTypeID":"a:b:c:d:e"}"#, 400),
        // What is no text is not left out: without its selector, a call would answer for everything.
        (
            "SelectMergeStacktraces",
            r#"{"profileTypeID":"a:b:c:d:e","labelSelector":5,"start":1,"end":2}"#,
            400,
        ),
        ("LabelNames", r#"{"matchers":[5]}"#, 400),
        ("Series", r#"{"matchers":{"service_name":"checkout"}}"#, 400),
        ("SelectSeries", &many, 400),
        ("Nonsense", "{}", 501),
    ] {
        let found = answer(&Known, method, Codec::Json, body.as_bytes());
        let text = String::from_utf8(found.body).expect("text");
        assert_eq!((found.status, found.content_type), (status, "application/json"), "{method}: {text}");
        assert!(text.contains("\"code\"") && text.contains("\"message\""), "{text}");
    }
    let tree = format!(r#"{{"profileTypeID":"{TYPE}","format":"PROFILE_FORMAT_TREE"}}"#);
    assert_eq!(answer(&Known, "SelectMergeStacktraces", Codec::Json, tree.as_bytes()).status, 501);
    // Any bytes, to any call.
    for method in METHODS {
        for body in
            [&b"\xff\xff\xff"[..], b"\x0a\xff", b"\x08\x01", b"[]", b"\"", b"\x1a\x02\x08", &[0x0a; 300]]
        {
            for codec in [Codec::Json, Codec::Proto] {
                let found = answer(&Known, method, codec, body);
                assert!([200, 400, 501].contains(&found.status), "{method} {body:?}");
            }
        }
    }
}

#[test]
fn bodies_may_be_packed() {
    assert_eq!(unpack("", b"plain".to_vec()).expect("as it is"), b"plain");
    assert!(unpack("gzip", b"plain".to_vec()).is_err());
    assert!(unpack("br", b"plain".to_vec()).is_err());
    let mut packed = Vec::new();
    let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &vec![0; 5 << 20]).expect("packed");
    encoder.finish().expect("packed");
    assert!(unpack("gzip", packed).is_err(), "a bomb");
}

#[test]
fn a_push_has_the_labels_and_the_profile() {
    let span = Span { from: 0, to: i64::MAX };
    let profile = Known.profile("cpu", span, &|_| true).expect("made").expect("there");
    let labels = [("region".to_owned(), "north".to_owned())];
    let series = push::Series { name: "process_cpu", service: "checkout", labels: &labels };
    let bodies = push::Protocol::Pyroscope.bodies(&profile, &series).expect("written");
    let mut fields = Fields::new(&bodies[0]);
    let (1, FieldValue::Bytes(series)) = fields.next().expect("read").expect("a series") else {
        panic!("a series")
    };
    let mut pairs = Vec::new();
    let mut fields = Fields::new(series);
    while let Some((number, value)) = fields.next().expect("read") {
        let inner = value.bytes().expect("a message");
        if number == 1 {
            pairs.push(shown(inner).into_iter().map(|field| field.1).collect::<Vec<_>>().join("="));
        } else {
            let (_, raw) = Fields::new(inner).next().expect("read").expect("a sample");
            let read = pprof::read(raw.bytes().expect("bytes"), &pprof::Limits::SERVICE).expect("pprof");
            assert_eq!(read.total(1), profile.total(1));
        }
    }
    assert_eq!(pairs, ["__delta__=false", "__name__=process_cpu", "region=north", "service_name=checkout"]);
}

/// A service with a span for each sample, and the given number of routes.
struct Many {
    spans: usize,
    routes: usize,
}

impl Source for Many {
    fn service(&self) -> &str {
        "checkout"
    }

    fn measured(&self, span: Span) -> Result<Vec<Measured>> {
        Known.measured(span)
    }

    fn profile(&self, _: &str, _: Span, _: &Keep<'_>) -> Result<Option<Profile>> {
        Ok(None)
    }

    fn totals(&self, _: &str, _: Span, each: &mut EachTotal<'_>) -> Result<()> {
        for number in 0..self.spans.max(self.routes) {
            let (span, route) = (format!("{number:016x}"), format!("/{}", number % self.routes));
            let labels = [("span_id", &*span), ("trace_id", &*span), ("route", &*route)];
            each(THEN + 5000, &labels, &[1, 100]);
        }
        Ok(())
    }

    fn extent(&self) -> Result<Option<Span>> {
        Known.extent()
    }
}

/// Asks for the values of a label, and for series by it.
fn ask_many(many: &Many, label: &str) -> [(u16, String); 3] {
    let ask = |method: &str, body: String| {
        let QueryAnswer { status, body, .. } = answer(many, method, Codec::Json, body.as_bytes());
        (status, String::from_utf8(body).expect("text"))
    };
    let end = THEN + 60_000;
    let series = format!(
        r#"{{"profileTypeID":"{TYPE}","labelSelector":"{{}}","start":{THEN},"end":{end},"step":15,"groupBy":["{label}"]}}"#
    );
    [
        ask("LabelValues", format!(r#"{{"name":"{label}"}}"#)),
        ask("Series", r#"{"labelNames":["route"]}"#.to_owned()),
        ask("SelectSeries", series),
    ]
}

#[test]
fn spans_are_no_series_and_hide_no_label() {
    let many = Many { spans: 5000, routes: 3 };
    for (status, body) in ask_many(&many, "route") {
        assert_eq!(status, 200, "{body}");
        (0..3).for_each(|route| assert!(body.contains(&format!("/{route}")), "{body}"));
    }
    let QueryAnswer { status, body, .. } = answer(&many, "LabelNames", Codec::Json, b"{}");
    let names = String::from_utf8(body).expect("text");
    assert_eq!(status, 200, "{names}");
    assert!(names.contains("route") && !names.contains("span_id") && !names.contains("trace_id"), "{names}");
    let [values, _, series] = ask_many(&many, "span_id");
    assert_eq!((values.0, series.0), (200, 200));
    assert!(
        !values.1.contains("0000") && !series.1.contains("0000000000000001"),
        "{} {}",
        values.1,
        series.1
    );
}

#[test]
fn huge_label_sets_are_an_error_and_not_a_part() {
    let [values, sets, series] = ask_many(&Many { spans: 0, routes: 2001 }, "route");
    // All values are returned; a list of this many series is refused.
    assert_eq!(values.0, 200);
    assert_eq!(values.1.matches('/').count(), 2001);
    for (status, body) in [sets, series] {
        assert_eq!(status, 429, "{body}");
        assert!(body.contains("resource_exhausted") && body.contains("more than 2000 series"), "{body}");
    }
    let [values, ..] = ask_many(&Many { spans: 0, routes: 200_001 }, "route");
    assert_eq!(values.0, 429, "{}", values.1);
    assert!(values.1.contains("more than 200000 sets of labels"), "{}", values.1);
}
