//! What flamelet sends as OTLP, before OpenTelemetry's own checker of profiles.

use std::io::Read;
use std::path::Path;
use std::process::Command;

use flamelet_profile::{LabelSetId, Line, Profile, ProfileBuilder};
use flamelet_remote::push::{Protocol, Series};

use super::{peer, read};

/// A profile with what OTLP is particular about: labels that occur twice, a mapping without a build id, another with a range
/// that is none, lines below 0, samples without a value, spans.
fn difficult() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let plain = builder.file_mapping(0x1000..0x9000, 0, "/bin/plain", "");
    let odd = builder.file_mapping(0x9000..0x9000, 0, "/bin/odd", "abcdef");
    let function = builder.named_function("main", "src/main.rs");
    let line = |line| Line { function: Some(function), line, column: -1 };
    let locations = [
        builder.location(Some(plain), 0x1100, &[line(12)]),
        builder.location(Some(odd), 0x9000, &[line(-3)]),
    ];
    let labels = [
        builder.text_label("route", "/a"),
        builder.text_label("route", "/b"),
        builder.text_label("thread", "worker"),
        builder.text_label("thread.name", "other"),
        builder.number_label("bytes", 7, "bytes"),
        builder.number_label("bytes", 8, "bytes"),
        builder.text_label("trace_id", "0af7651916cd43dd8448eb211c80319c"),
        builder.text_label("span_id", "b7ad6b7169203331"),
    ];
    let labels = builder.labels(&labels);
    for (stack, labels, values) in [
        (&locations[..1], labels, [1, 10]),
        (&locations[..], LabelSetId::EMPTY, [2, 0]),
        (&[], labels, [0, 5]),
    ] {
        let stack = builder.stack(stack);
        builder.sample(stack, labels, &values);
    }
    builder.set_period("cpu", "nanoseconds", 10);
    (builder.header_mut().time_nanos, builder.header_mut().duration_nanos) = (1_794_700_800_000_000_000, 10);
    builder.finish()
}

/// Checks what is sent of a profile, also for duplicate and unused entries of the tables.
fn check(checker: &Path, name: &str, profile: &Profile, folder: &Path) {
    let labels = [("zone".to_owned(), "b".to_owned())];
    let series = Series { name: "process_cpu", service: "checkout", labels: &labels };
    for (number, body) in Protocol::Otlp.bodies(profile, &series).expect("written").iter().enumerate() {
        let mut message = Vec::new();
        flate2::read::GzDecoder::new(&**body).read_to_end(&mut message).expect("gzip");
        let file = folder.join(format!("{name}-{number}.otlp"));
        std::fs::write(&file, message).expect("written");
        let output = Command::new(checker).args(["-check-dupes", "-check-orphans"]).arg(&file).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("conformance checks passed"), "{name}: {said}");
    }
}

#[test]
fn opentelemetrys_checker_finds_nothing_wrong() {
    let Some(checker) = peer("profcheck") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    check(&checker, "difficult", &difficult(), folder.path());
    for name in ["go-cpu", "go-heap", "go-mutex", "demo-cpu", "demo-heap"] {
        let profile = read(&flamelet_tests::profiles::committed(name));
        check(&checker, name, &profile, folder.path());
    }
}
