//! Symbols that `flamelet symbols push` sends to a collector, or that it fetches, which then name code that came without
//! names.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};
use flamelet_tests::programs::{answer, command, flamelet, run_flamelet};

use super::collect::{Collector, SECOND, ingest, now};

const PATIENCE: Duration = Duration::from_secs(120);

/// A program with the function `hot`, where that is, and its build id.
struct Program {
    path: PathBuf,
    address: u64,
    build_id: String,
}

fn built(folder: &Path) -> Program {
    let (source, path) = (folder.join("hot.c"), folder.join("hot"));
    std::fs::write(&source, "int hot(int x) { return x; }\nint main(void) { return hot(0); }\n")
        .expect("written");
    let made = answer(
        command("cc".as_ref()).args(["-g", "-O0", "-no-pie", "-Wl,--build-id", "-o"]).args([&path, &source]),
    );
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let listing = answer(command("nm".as_ref()).arg(&path)).stdout;
    let line = listing.lines().find(|line| line.ends_with(" T hot")).expect("the function");
    let address = u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("hexadecimal");
    let build_id = flamelet_symbol::buildid::of_file(&path).expect("an ELF file").expect("an id").to_string();
    Program { path, address, build_id }
}

/// A profile of the program in which nothing has a name.
fn profile(program: &Program, time: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (time, SECOND);
    let start = program.address & !0xfff;
    let mapping =
        builder.file_mapping(start..start + 0x1000, start & 0xf_ffff, "/srv/hot", &program.build_id);
    let location = builder.address(Some(mapping), program.address + 4);
    let in_no_file = builder.address(None, program.address + 4);
    for (location, count) in [(location, 7), (in_no_file, 2)] {
        let stack = builder.stack(&[location]);
        builder.sample(stack, LabelSetId::EMPTY, &[count, count * 10_000_000]);
    }
    pprof::encode(&builder.finish())
}

#[test]
fn symbols_are_sent_once_and_name_code_in_every_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let (tokens, config) = (folder.path().join("tokens"), folder.path().join("collect.yaml"));
    std::fs::write(&tokens, "secret\nred of-red\n").expect("written");
    std::fs::write(&config, "limits:\n  symbols: 1MiB\n").expect("written");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (tokens, config, path) = (text(&tokens), text(&config), text(&store));
    let more = ["--token-file", &tokens, "--config", &config];
    let collector = Collector::start(&store, &more);
    let program = built(folder.path());
    let time = now() - 60 * SECOND;
    let send = |token: &str| {
        let head = format!("{}\r\nAuthorization: Bearer {token}", ingest("checkout", time));
        assert_eq!(collector.send(&head, &profile(&program, time)).0, 200);
    };
    send("secret");
    send("of-red");
    let function = |collector: &Collector, token: &str| {
        let head = format!("GET /api/top?from=-1h HTTP/1.1\r\nAuthorization: Bearer {token}");
        let (status, body) = collector.send(&head, b"");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let found: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        // The address that is in no file never gets a name of this one.
        assert_eq!(found["groups"].as_array().map(Vec::len), Some(2), "{found}");
        found["groups"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(function(&collector, "secret"), "/srv/hot", "its file is all that is known");

    let (file, to) = (text(&program.path), format!("pyroscope+{}", collector.url()));
    let push = |more: &[&str]| run_flamelet([&["symbols", "push", &file, "--to", &to], more].concat());
    let refused = push(&[]);
    assert!(refused.status == Some(2) && refused.stderr.contains("401"), "{}", refused.stderr);
    let token = ["--header", "Authorization: Bearer secret"];
    let sent = push(&token);
    assert!(sent.status == Some(0) && sent.stderr.contains(&program.build_id), "{}", sent.stderr);
    let again = push(&token);
    assert!(again.status == Some(0) && again.stderr.contains("there already"), "{}", again.stderr);

    assert_eq!(function(&collector, "secret"), "hot");
    assert_eq!(function(&collector, "of-red"), "/srv/hot", "symbols are of one tenant");
    let reading = Collector::start(&store, &[&more[..], &["--read-only"]].concat());
    assert_eq!(function(&reading, "secret"), "hot");
    let top = run_flamelet(["top", &path, "--service", "checkout", "--from", "-1h"]);
    assert!(top.stdout.lines().any(|line| line.ends_with(" hot")), "{}{}", top.stdout, top.stderr);

    let upload = |collector: &Collector, id: &str, body: &[u8]| {
        let path = format!("/debuginfo.v1alpha1.DebuginfoService/Upload/{id}");
        let head = format!("POST {path} HTTP/1.1\r\nAuthorization: Bearer secret");
        let (status, body) = collector.send(&head, body);
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let bytes = std::fs::read(&program.path).expect("read");
    let other = "0102030405060708";
    for (id, body, status, words) in [
        (other, &bytes[..], 400, "does not have the build id"),
        (other, b"junk", 400, "not an ELF file"),
        ("../../x", &bytes, 400, "hexadecimal"),
        ("", &bytes, 400, "hexadecimal"),
        (other, &vec![0; (1 << 20) + 1], 413, "limits.symbols"),
    ] {
        let (found, line) = upload(&collector, id, body);
        assert!(found == status && line.contains(words), "{id}: {found} {line}");
    }
    assert_eq!(upload(&reading, &program.build_id, &bytes).0, 405, "a reader keeps nothing");
    let kept: Vec<_> = std::fs::read_dir(store.join("symbols")).expect("a folder").flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    reading.end();
    collector.end();
}

/// A server of debuginfod's protocol, which has one file; it does not answer at all if it is asked for `silent`. Returns its
/// address and the paths that it is asked for.
fn debuginfod(id: &str, file: Vec<u8>, silent: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (known, (sender, asked)) = (format!("/buildid/{id}/debuginfo"), channel());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines().map_while(Result::ok);
            let path =
                lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let (status, body) =
                if path == known { ("200 OK", &*file) } else { ("404 Not Found", &b"no"[..]) };
            let is_silent = path.contains(silent);
            let _ = sender.send(path);
            if is_silent {
                held.push(stream);
                continue;
            }
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // The collector may have ended.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    (url, asked)
}

/// Returns whether the function `hot` has its name.
fn is_named(collector: &Collector) -> bool {
    let (status, body) = collector.send("GET /api/top?from=-1h HTTP/1.1", b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let found: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    found["groups"].as_array().expect("a list").iter().any(|group| group["name"] == "hot")
}

#[test]
fn symbols_are_fetched_from_debuginfod_once_and_nobody_waits_for_it() {
    const UNKNOWN: &str = "0123456789abcdef";
    const SILENT: &str = "feedfeedfeedfeed";
    let folder = tempfile::tempdir().expect("a folder");
    let (store, program) = (folder.path().join("store"), built(folder.path()));
    let debug = folder.path().join("hot.debug");
    let made = answer(command("objcopy".as_ref()).arg("--only-keep-debug").args([&program.path, &debug]));
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let (url, asked) = debuginfod(&program.build_id, std::fs::read(debug).expect("read"), SILENT);
    let mut collecting = command(flamelet());
    collecting.args(["collect", "--store"]).arg(&store).env("DEBUGINFOD_URLS", &url);
    let collector = Collector::run(&mut collecting);
    let time = now() - 60 * SECOND;
    let send = |service: &str, program: &Program| {
        assert_eq!(collector.send(&ingest(service, time), &profile(program, time)).0, 200);
    };
    let other =
        |id: &str| Program { path: PathBuf::new(), address: program.address, build_id: id.to_owned() };
    send("checkout", &other(UNKNOWN));
    send("checkout", &program);
    let start = Instant::now();
    while !is_named(&collector) {
        assert!(start.elapsed() < PATIENCE, "no names");
    }
    // This one waits for an answer that does not come, and everybody else goes on.
    send("cart", &other(SILENT));
    let paths = [UNKNOWN, &program.build_id, SILENT].map(|id| format!("/buildid/{id}/debuginfo"));
    let found = [(); 3].map(|()| asked.recv_timeout(PATIENCE).expect("asked"));
    assert_eq!(found, paths);
    send("last", &program);
    assert!(is_named(&collector));
    assert_eq!(asked.try_recv().ok(), None, "each is asked for once");
    let kept: Vec<_> = std::fs::read_dir(store.join("symbols")).expect("a folder").flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    collector.end();

    let again = Collector::start(&store, &[]);
    assert!(is_named(&again), "it is kept, and nobody need be asked");
    again.end();
}
