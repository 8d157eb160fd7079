//! What the senders of other systems send to `flamelet collect` arrives, stack for stack.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flamelet_profile::{LabelSetId, Line, Profile, ProfileBuilder, pprof};
use flamelet_remote::push::{OTLP_PATH, PARCA_PATH, PYROSCOPE_PATH, Protocol, Series};
use flamelet_remote::receive::otlp::EXPORT_PATH;
use flamelet_remote::receive::parca::GATEWAY_PATHS;
use flamelet_tests::programs::run_flamelet;
use serde_json::{Value, json};

use super::collect::{Collector, SECOND, answer, certificate, now};

/// A profile with files, lines, inlined functions, a build id and a label.
fn profile(time: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let mapping = builder.file_mapping(0x1000..0x9000, 0, "/bin/shop", "ab01cd");
    let main = builder.named_frame("main");
    let route = builder.text_label("route", "/cart");
    let labels = builder.labels(&[route]);
    for number in 0..40i64 {
        let inner = builder.named_function(&format!("inlined_{}", number % 7), "src/inner.rs");
        let outer = builder.named_function(&format!("work_{number}"), "src/work.rs");
        let lines =
            [inner, outer].map(|function| Line { function: Some(function), line: number + 1, column: 0 });
        let leaf = builder.location(Some(mapping), 0x1000 + number as u64 * 16, &lines);
        let stack = builder.stack(&[leaf, main]);
        let set = if number % 2 == 0 { labels } else { LabelSetId::EMPTY };
        builder.sample(stack, set, &[number + 1, (number + 1) * 10_000_000]);
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, 10 * SECOND);
    builder.finish()
}

/// Returns the values of each stack: functions, files, lines, build ids, and the label `route` of the samples.
fn stacks(profile: &Profile) -> BTreeMap<String, Vec<i64>> {
    labelled_stacks(profile, &["route"])
}

/// Returns the values of each stack with these labels.
fn labelled_stacks(profile: &Profile, keys: &[&str]) -> BTreeMap<String, Vec<i64>> {
    let mut all: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for sample in profile.samples() {
        let mut text = String::new();
        for label in profile.labels(sample.labels) {
            let key = profile.string(label.key);
            if keys.contains(&key) {
                text += &format!("[{key}={}] ", profile.string(label.text));
            }
        }
        for &id in profile.stack(sample.stack) {
            let location = profile.location(id);
            for line in profile.lines_of(location) {
                let function = profile.function(line.function.expect("a name"));
                let (name, file) = (profile.string(function.name), profile.string(function.filename));
                text += &format!("{name} {file}:{} ", line.line);
            }
            let build = location.mapping.map(|id| profile.string(profile.mapping(id).build_id));
            text += &format!("({}); ", build.unwrap_or_default());
        }
        let values = all.entry(text).or_insert_with(|| vec![0; sample.values.len()]);
        values.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
    }
    all
}

fn write(path: &Path, profile: &Profile) -> String {
    let mut bytes = Vec::new();
    pprof::write_gzip(profile, &mut bytes).expect("written");
    std::fs::write(path, bytes).expect("written");
    path.to_str().expect("text").to_owned()
}

/// Returns what the store has of a service in the last hour.
fn kept(store: &Path, service: &str) -> Profile {
    read(store.to_str().expect("text"), service, &["--from", "-1h"])
}

fn read(source: &str, service: &str, more: &[&str]) -> Profile {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.pb.gz");
    let arguments = ["proto", source, "--service", service, "-o", out.to_str().expect("text")];
    answer(&[&arguments[..], more].concat());
    pprof::read(&std::fs::read(out).expect("written"), &pprof::Limits::default()).expect("pprof")
}

fn values_of(collector: &Collector, label: &str, service: &str) -> Value {
    let (start, end) = ((now() - 3600 * SECOND) / 1_000_000, now() / 1_000_000);
    let matchers = [format!("{{service_name=\"{service}\"}}")];
    let request = json!({ "start": start, "end": end, "name": label, "matchers": matchers });
    collector.call("LabelValues", &request)["names"].clone()
}

fn post(path: &str, content_type: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nContent-Type: {content_type}")
}

#[test]
fn what_push_sends_by_each_protocol_is_kept_stack_for_stack() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &[]);
    let sent = profile(now() - 60 * SECOND);
    let file = write(&folder.path().join("cpu.pb.gz"), &sent);
    for protocol in ["otlp", "parca", "pyroscope"] {
        let to = format!("{protocol}+{}", collector.url());
        // What is sent again counts once.
        for _ in 0..2 {
            answer(&["push", &file, "--to", &to, "--service", protocol, "--label", "region=north"]);
        }
        let kept = kept(&store, protocol);
        assert_eq!(stacks(&kept), stacks(&sent), "{protocol}");
        assert_eq!(kept.header.period, sent.header.period, "{protocol}");
        assert_eq!(values_of(&collector, "region", protocol), json!(["north"]), "{protocol}");
    }
    assert_eq!(values_of(&collector, "telemetry_sdk_name", "otlp"), json!(["flamelet"]));
    assert_eq!(values_of(&collector, "job", "parca"), json!(["parca"]));
    collector.end();
}

/// A profile of memory in use.
fn heap(time: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let frame = builder.named_frame("allocate");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[3, 4096]);
    builder.header_mut().time_nanos = time;
    builder.finish()
}

#[test]
fn a_range_of_a_collector_is_replayed_with_its_labels_and_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let source = store.to_str().expect("text");
    let first = Collector::start(&store, &[]);
    let second = now() / SECOND - 600;
    // To the microsecond, which is how exact blocks are.
    let times = [0, 7, 8].map(|later| (second + later) * SECOND + 123_456_000);
    let pushed = |profile: &Profile, region: &str| {
        let file = write(&folder.path().join("one.pb.gz"), profile);
        let label = format!("region={region}");
        answer(&["push", &file, "--to", &first.url(), "--service", "shop", "--label", &label]);
    };
    for (time, region) in times.into_iter().zip(["north", "south", "north"]) {
        pushed(&profile(time), region);
    }
    pushed(&heap(times[1]), "south");
    first.end();

    for protocol in ["otlp", "parca", "pyroscope"] {
        let copy = folder.path().join(protocol);
        let target = Collector::start(&copy, &[]);
        let to = format!("{protocol}+{}", target.url());
        // The last one of the three is outside the range.
        let range = format!("{source}?from={second}&to={}", second + 8);
        let pushed = run_flamelet(["push", &range, "--to", &to, "--service", "shop", "--label", "copy=yes"]);
        assert_eq!(pushed.status, Some(0), "{}", pushed.stderr);
        assert!(pushed.stderr.contains("Pushed 3 profiles of shop"), "{}", pushed.stderr);
        let of = |store: &Path, keys: &[&str], from: i64, more: &[&str]| {
            let source = format!("{}?from={from}&to={}", store.display(), from + 1);
            let profile = read(&source, "shop", more);
            (labelled_stacks(&profile, keys), profile.header.time_nanos, profile.header.duration_nanos)
        };
        for from in [second, second + 7] {
            let keys = ["region", "route"];
            assert_eq!(of(&copy, &keys, from, &[]), of(&store, &keys, from, &[]), "{protocol} {from}");
        }
        let heap = ["--profile", "heap"];
        assert_eq!(of(&copy, &["region"], second + 7, &heap), of(&store, &["region"], second + 7, &heap));
        assert_eq!(values_of(&target, "region", "shop"), json!(["north", "south"]), "{protocol}");
        assert_eq!(values_of(&target, "copy", "shop"), json!(["yes"]), "{protocol}");
        assert_eq!(kept(&copy, "shop").total(0), 2 * profile(0).total(0), "{protocol}");
        target.end();
    }
    let url = "http://127.0.0.1:9";
    for (source, service, words) in [
        (source.to_owned(), "cart", "there is no service \"cart\"; there are shop"),
        (format!("{source}?from=-20s"), "shop", "shop has no profile between"),
        (format!("{source}?from=-20s&to=-30s"), "shop", "the range is empty"),
    ] {
        let refused = run_flamelet(["push", &source, "--to", url, "--service", service]);
        assert!(refused.status == Some(2) && refused.stderr.contains(words), "{}", refused.stderr);
        assert_eq!(refused.stderr.trim().lines().count(), 1, "{}", refused.stderr);
    }
}

/// Returns a message of OTLP in JSON, of a service.
fn otlp_json(folder: &Path, services: &[&str]) -> Value {
    let (file, out) = (folder.join("one.pb.gz"), folder.join("one.json"));
    let file = write(&file, &profile(now() - 60 * SECOND));
    answer(&["convert", &file, "--to", "otlp-json", "-o", out.to_str().expect("text")]);
    let mut message: Value = serde_json::from_slice(&std::fs::read(out).expect("written")).expect("JSON");
    let one = message["resourceProfiles"][0].clone();
    let of = |service: &&str| {
        let mut resource = one.clone();
        resource["resource"]["attributes"] = json!([
            { "key": "service.name", "value": { "stringValue": service } },
            { "key": "k8s.pod.name", "value": { "stringValue": "pod-1" } },
            { "key": "process.pid", "value": { "intValue": "7" } },
        ]);
        resource
    };
    message["resourceProfiles"] = services.iter().map(of).collect();
    message
}

#[test]
fn otlp_is_answered_as_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &[]);
    let send = |message: &Value| {
        let (status, body) =
            collector.send(&post(OTLP_PATH, "application/json"), message.to_string().as_bytes());
        (status, serde_json::from_slice::<Value>(&body).expect("JSON"))
    };
    let long = "x".repeat(200);
    assert_eq!(send(&otlp_json(folder.path(), &["cart", "checkout"])), (200, json!({})));
    let sent = stacks(&profile(0));
    for service in ["cart", "checkout"] {
        assert_eq!(stacks(&kept(&store, service)), sent, "{service}");
        assert_eq!(values_of(&collector, "k8s_pod_name", service), json!(["pod-1"]));
        assert_eq!(values_of(&collector, "process_pid", service), json!(["7"]));
    }
    let (status, partial) = send(&otlp_json(folder.path(), &[&long, "third"]));
    assert_eq!((status, &partial["partialSuccess"]["rejectedProfiles"]), (200, &json!("1")), "{partial}");
    assert!(partial["partialSuccess"]["errorMessage"].to_string().contains("128 bytes"), "{partial}");
    assert_eq!(stacks(&kept(&store, "third")), sent);
    let (status, refused) = send(&otlp_json(folder.path(), &[&long]));
    assert_eq!((status, &refused["code"]), (400, &json!(3)), "{refused}");

    assert_eq!(send(&json!({})), (200, json!({})), "nothing is nothing wrong");
    assert_eq!(collector.send(&post(OTLP_PATH, "application/x-protobuf"), b""), (200, Vec::new()));
    // google.rpc.Status { code: INVALID_ARGUMENT, message }.
    for garbage in [&b"\xff\xff"[..], b"\x0a\x7f", b"\x12\x04\x3a\x02\x0a\xff"] {
        let (status, body) = collector.send(&post(OTLP_PATH, "application/x-protobuf"), garbage);
        assert!(status == 400 && body.starts_with(&[8, 3, 0x12]), "{garbage:?}: {status} {body:?}");
    }
    let (status, body) = collector.send(&post(OTLP_PATH, "text/plain"), b"x");
    assert!(status == 415 && body.starts_with(&[8, 3, 0x12]), "{status} {body:?}");
    collector.end();
}

#[test]
fn parca_writes_are_answered_as_parca_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start(&store, &[]);
    let sent = profile(now() - 60 * SECOND);
    let raw = base64(&pprof::encode(&sent));
    let write = |labels: Value| {
        let series = json!({ "labels": { "labels": labels }, "samples": [{ "rawProfile": raw }] });
        json!({ "series": [series], "normalized": false }).to_string()
    };
    for (path, service) in [("/profiles/writeraw", "one"), ("/api/profiles/writeraw", "two")] {
        let body = write(json!([{ "name": "job", "value": service }, { "name": "zone", "value": "b" }]));
        let (status, answer) = collector.send(&post(path, "application/json"), body.as_bytes());
        assert_eq!((status, &answer[..]), (200, &b"{}"[..]), "{}", String::from_utf8_lossy(&answer));
        assert_eq!(stacks(&kept(&store, service)), stacks(&sent));
        assert_eq!(values_of(&collector, "zone", service), json!(["b"]));
    }
    let nameless = write(json!([]));
    let (status, answer) =
        collector.send(&post("/profiles/writeraw", "application/json"), nameless.as_bytes());
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(status == 400 && answer["message"].to_string().contains("service_name and job"), "{answer}");
    let (status, body) = collector.send(&post(PARCA_PATH, "application/grpc"), b"");
    assert!(status == 415 && String::from_utf8_lossy(&body).contains("over HTTP/2"), "{status} {body:?}");
    // gRPC-Web has the status in the last frame.
    let (status, body) =
        collector.send(&post(PARCA_PATH, "application/grpc-web+proto"), b"\0\0\0\0\x02\x12\x7f");
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 200 && text.contains("grpc-status: 3\r\n"), "{status} {text}");
    collector.end();
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..=chunk.len() {
            text.push(LETTERS[(bits >> (18 - 6 * at) & 63) as usize].into());
        }
    }
    text
}

/// Makes unary calls with gRPC's own client, and prints the code, the details and the answer of each.
const CLIENT: &str = r#"
import base64, json, sys, grpc
request = json.load(sys.stdin)
answers = []
for call in request["calls"]:
    options = [("grpc.enable_http_proxy", 0)]
    compression = grpc.Compression.Gzip if call["gzip"] else grpc.Compression.NoCompression
    if request["authority"]:
        trusted = grpc.ssl_channel_credentials(request["authority"].encode())
        channel = grpc.secure_channel(request["address"], trusted, options=options, compression=compression)
    else:
        channel = grpc.insecure_channel(request["address"], options=options, compression=compression)
    with channel:
        method = channel.unary_unary(call["path"])
        try:
            metadata = [tuple(pair) for pair in call["metadata"]]
            answer = method(base64.b64decode(call["body"] + "=="), timeout=120, metadata=metadata)
            answers.append(["OK", "", answer.hex()])
        except grpc.RpcError as error:
            answers.append([error.code().name, error.details(), ""])
json.dump(answers, sys.stdout)
"#;

/// Returns the folder with gRPC's own client.
fn client() -> Option<PathBuf> {
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/tools/grpcio");
    let folder = std::env::var_os("FLAMELET_GRPCIO").map_or(usual, PathBuf::from);
    folder.join("grpc").is_dir().then_some(folder)
}

struct Call {
    path: &'static str,
    body: Vec<u8>,
    gzip: bool,
    token: &'static str,
}

impl Call {
    fn new(path: &'static str, body: &[u8]) -> Self {
        Self { path, body: body.to_vec(), gzip: false, token: "secret" }
    }
}

/// Makes calls, and returns the code and the details of each.
fn call(client: &Path, address: &str, calls: &[Call]) -> Vec<(String, String)> {
    call_over(client, address, None, calls)
}

/// Makes calls, over TLS if there is an authority to trust.
fn call_over(client: &Path, address: &str, authority: Option<&str>, calls: &[Call]) -> Vec<(String, String)> {
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            let metadata = [("authorization", format!("Bearer {}", call.token))];
            json!({ "path": call.path, "body": base64(&call.body), "gzip": call.gzip, "metadata": metadata })
        })
        .collect();
    let input = json!({ "address": address, "authority": authority, "calls": calls }).to_string();
    let mut child = Command::new("python3")
        .args(["-c", CLIENT])
        .env("PYTHONPATH", client)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the client failed");
    let answers: Vec<(String, String, String)> = serde_json::from_slice(&output.stdout).expect("JSON");
    answers
        .into_iter()
        .map(|(code, details, answer)| {
            assert_eq!(answer, "", "the message of the answer is empty");
            (code, details)
        })
        .collect()
}

/// Returns the message that a protocol's sender sends, without what HTTP adds.
fn message(protocol: Protocol, profile: &Profile, service: &str) -> Vec<u8> {
    let labels = [("region".to_owned(), "north".to_owned())];
    let series = Series { name: "process_cpu", service, labels: &labels };
    let body = protocol.bodies(profile, &series).expect("written").remove(0);
    match protocol {
        Protocol::Otlp => {
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(&*body).read_to_end(&mut bytes).expect("gzip");
            bytes
        }
        // Behind the head of the frame.
        Protocol::Parca => body[5..].to_vec(),
        Protocol::Pyroscope => body,
    }
}

#[test]
fn the_client_of_grpc_sends_by_each_protocol() {
    let Some(client) = client() else {
        return flamelet_test_support::skip!("no grpcio (`cargo xtask tools` prepares it)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (store, tokens, config) =
        (folder.path().join("store"), folder.path().join("tokens"), folder.path().join("collect.yaml"));
    std::fs::write(&tokens, "secret\n").expect("written");
    std::fs::write(&config, "limits:\n  body: 1MiB\n").expect("written");
    let more = ["--token-file", tokens.to_str().expect("text"), "--config", config.to_str().expect("text")];
    let collector = Collector::start(&store, &more);
    let sent = profile(now() - 60 * SECOND);
    let good = [
        Call::new(EXPORT_PATH, &message(Protocol::Otlp, &sent, "otlp")),
        Call { gzip: true, ..Call::new(EXPORT_PATH, &message(Protocol::Otlp, &sent, "packed")) },
        Call::new(PARCA_PATH, &message(Protocol::Parca, &sent, "parca")),
        Call { gzip: true, ..Call::new(PYROSCOPE_PATH, &message(Protocol::Pyroscope, &sent, "pyroscope")) },
    ];
    assert_eq!(call(&client, &collector.address, &good), vec![("OK".to_owned(), String::new()); 4]);
    for service in ["otlp", "packed", "parca", "pyroscope"] {
        let kept = kept(&store, service);
        assert_eq!(stacks(&kept), stacks(&sent), "{service}");
    }

    let bad = [
        (Call::new(EXPORT_PATH, b"\xff\xff"), "INVALID_ARGUMENT", ""),
        (Call::new("/some.Service/Call", b""), "UNIMPLEMENTED", "not served"),
        (Call { token: "guess", ..Call::new(EXPORT_PATH, b"") }, "UNAUTHENTICATED", "a token is required"),
        (Call::new(EXPORT_PATH, &vec![0; 2 << 20]), "RESOURCE_EXHAUSTED", "limits.body"),
        // 2 MiB of zeros are small until they are unpacked.
        (
            Call { gzip: true, ..Call::new(PARCA_PATH, &vec![0; 2 << 20]) },
            "RESOURCE_EXHAUSTED",
            "after unpacking",
        ),
        (Call::new(PARCA_PATH, &message(Protocol::Parca, &sent, &"é".repeat(60))), "INVALID_ARGUMENT", "é"),
    ];
    let (calls, expected): (Vec<Call>, Vec<_>) =
        bad.into_iter().map(|(call, code, words)| (call, (code, words))).unzip();
    for ((code, details), (expected, words)) in call(&client, &collector.address, &calls).iter().zip(expected)
    {
        assert!(code == expected && details.contains(words), "{code}: {details}");
    }
    let head = "GET / HTTP/1.1\r\nAuthorization: Bearer secret";
    let (status, list) = collector.send(head, b"");
    assert_eq!(status, 200, "HTTP/1.1 on the same port");
    assert!(String::from_utf8_lossy(&list).starts_with("flamelet collect: 4 services"));
    collector.end();
}

#[test]
fn the_client_of_grpc_sends_over_tls() {
    let Some(client) = client() else {
        return flamelet_test_support::skip!("no grpcio (`cargo xtask tools` prepares it)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let collector = Collector::start_tls(&store, &[]);
    let authority = std::fs::read_to_string(certificate("authority.pem")).expect("readable");
    let sent = profile(now() - 60 * SECOND);
    let calls = [
        Call::new(EXPORT_PATH, &message(Protocol::Otlp, &sent, "otlp")),
        Call { gzip: true, ..Call::new(PYROSCOPE_PATH, &message(Protocol::Pyroscope, &sent, "pyroscope")) },
    ];
    let answers = call_over(&client, &collector.address, Some(&authority), &calls);
    assert_eq!(answers, vec![("OK".to_owned(), String::new()); 2]);
    assert_eq!(stacks(&kept(&store, "otlp")), stacks(&sent));
    let plain = call(&client, &collector.address, &calls[..1]);
    assert_eq!(plain[0].0, "UNAVAILABLE", "{plain:?}");
    collector.end();
}

/// Labels without text have two bytes in a message and 48 in memory: 15 MB of them took 420 MB.
#[test]
fn a_push_of_empty_labels_stays_within_the_budget() {
    const MOST: u64 = 280_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start(&folder.path().join("store"), &[]);
    // 2,000 bytes, as a series of a push and as a set of labels in a series of a raw write.
    let labels = [0x0a, 0].repeat(1000);
    let pyroscope = [&[0x0a, 0xd0, 15][..], &labels].concat().repeat(7500);
    let parca = [&[0x12, 0xd3, 15, 0x0a, 0xd0, 15][..], &labels].concat().repeat(7500);
    for (path, body) in [(PYROSCOPE_PATH, pyroscope), (GATEWAY_PATHS[0], parca)] {
        let (status, answer) = collector.send(&post(path, "application/proto"), &body);
        let answer = String::from_utf8_lossy(&answer);
        assert!(status == 413 || status == 429, "{path}: {status}, {answer}");
        assert!(answer.contains("memory"), "{path}: {answer}");
    }
    let peak = collector.end_with_peak();
    assert!(peak < MOST, "{} MB", peak / 1_000_000);
}
