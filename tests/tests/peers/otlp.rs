//! What flamelet sends as OTLP, before OpenTelemetry's own checker of profiles, and through OpenTelemetry's collector.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flamelet_profile::{LabelSetId, Line, Profile, ProfileBuilder};
use flamelet_remote::push::{Protocol, Series};
use flamelet_tests::programs::{command, run_flamelet};

use super::pyroscope::collector;
use super::server::{Server, free_ports};
use super::{DEADLINE, as_of_now, peer, read, stacks};

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

/// Starts OpenTelemetry's collector, which sends on what it receives. Returns `None` if it is not built.
fn otel_collector(folder: &Path, to: &str) -> Option<Server> {
    let program = peer("otelcol")?;
    let [port] = free_ports();
    let file = folder.join("collector.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: 127.0.0.1:{port}}}}}}}}}\n\
         exporters: {{otlp_http: {{endpoint: '{to}'}}}}\n\
         service: {{telemetry: {{metrics: {{level: none}}}}, \
         pipelines: {{profiles: {{receivers: [otlp], exporters: [otlp_http]}}}}}}\n"
    );
    std::fs::write(&file, text).expect("written");
    let mut command = command(&program);
    command.arg("--feature-gates=service.profilesSupport").arg("--config").arg(&file);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let server = Server { child, url: format!("http://127.0.0.1:{port}") };
    let patience = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(patience.elapsed() < DEADLINE, "the collector does not become ready");
        std::thread::sleep(Duration::from_millis(200));
    }
    Some(server)
}

#[test]
fn opentelemetrys_collector_passes_on_what_the_command_pushes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let receiver = collector(&store);
    let Some(between) = otel_collector(folder.path(), &receiver.url) else { return };
    let sent = as_of_now("go-cpu", folder.path());
    let (source, to) = (sent.display().to_string(), format!("otlp+{}", between.url));
    let pushed = run_flamelet(["push", &source, "--to", &to, "--service", "checkout"]);
    assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
    let (kept, patience) = (folder.path().join("kept.pb.gz"), Instant::now());
    let (store, out) = (store.display().to_string(), kept.display().to_string());
    // It sends on in its own time.
    while run_flamelet(["proto", &store, "--service", "checkout", "-o", &out]).status != Some(0) {
        assert!(patience.elapsed() < DEADLINE, "nothing arrives");
        std::thread::sleep(Duration::from_millis(200));
    }
    let column = |profile: &Profile| {
        let kinds = profile.sample_types().iter();
        kinds.map(|value| profile.string(value.kind)).position(|kind| kind == "cpu").expect("CPU time")
    };
    let (sent, kept) = (read(&sent), read(&kept));
    assert_eq!(stacks(&kept, column(&kept)), stacks(&sent, column(&sent)));
}
