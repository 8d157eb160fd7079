//! Names with control characters: they are shown escaped, and have no effect on the terminal.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use flamelet_tests::profiles;
use flamelet_tests::programs::{Answer, command, flamelet, json_of, run_flamelet};
use flamelet_tests::wire::{Label, ProfileFile};

/// Sets the terminal's title in two ways, switches to red, writes backwards, deletes, returns to the start of the line.
const EVIL: &str = "\x1b]0;owned\x07\u{9d}0;owned\u{9c}\u{9b}31m\u{202e}\u{2066}\x7f\x08\r";

fn evil(name: &str) -> String {
    format!("{name}{EVIL}")
}

/// A profile in which everything that can have a name has an evil one; with more of it for a larger `weight`.
fn profile(weight: i64) -> PathBuf {
    profiles::written(&format!("evil-{weight}.pb"), || {
        let mut file = ProfileFile::new(&[("objects", "count"), (&evil("space"), "bytes")]);
        file.comment(&evil("comment"));
        file.doc_url(&evil("https://example.org/"));
        let mapping = file.mapping(0x1000, 0x2000, 0, &evil("/nowhere/program"), &evil("0102"));
        let names = ["main", "leaf"].map(|name| {
            let function = file.function(&evil(name), &evil(name), &evil("/nowhere/main.rs"), 1);
            file.location(mapping, 0x1000, &[(function, 7, 0)])
        });
        let (key, value) = (evil("key"), evil("value"));
        let labels = [Label::Text(&key, &value), Label::Number(&key, 7, &value)];
        file.sample(&[names[1], names[0]], &[weight, 1000 * weight], &labels);
        file.sample(&[names[0]], &[1, 1000], &[]);
        file.into_bytes()
    })
}

/// Returns the control characters in `text`.
fn acting(text: &str) -> Vec<char> {
    let is_bidi = |c: char| ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
    text.chars().filter(|&c| is_bidi(c) || c.is_control() && c != '\n' && c != '\t').collect()
}

fn assert_tame(words: &[&str], answer: &Answer) {
    assert_eq!(acting(&answer.stdout), [], "{words:?} on standard output:\n{:?}", answer.stdout);
    assert_eq!(acting(&answer.stderr), [], "{words:?} on standard error:\n{:?}", answer.stderr);
}

#[test]
fn reports_show_what_a_terminal_would_obey() {
    let (less, more) = (profile(5).display().to_string(), profile(50).display().to_string());
    for words in [
        &["top", &less][..],
        &["top", "--cum", "--granularity=lines", &less],
        &["tree", &less],
        &["peek", ".", &less],
        &["list", ".", &less],
        &["traces", &less],
        &["tags", &less],
        &["raw", &less],
        &["info", &less],
        &["comments", &less],
        &["diff", &less, &more],
        &["check", &less, &more],
        &["pprof", "-top", &less],
        &["pprof", "-traces", &less],
        &["pprof", "-tags", &less],
        &["pprof", "-raw", &less],
    ] {
        let answer = run_flamelet(words);
        assert_tame(words, &answer);
        assert!(answer.stdout.contains("\\x1b]0;owned\\x07"), "{words:?} shows it:\n{answer:?}");
    }
    // These have nothing to show, and say so.
    for words in [
        &["disasm", ".", &less][..],
        &["heap", &less],
        &["heap", "--growth", &less],
        &["top", "--focus", &evil("("), &less],
        &["top", "--sample-index", &evil("none"), &less],
        &["top", &evil("no such file")],
        &["top", &evil("--no-such-option"), &less],
        &["peek", &evil("nobody"), &less],
    ] {
        assert_tame(words, &run_flamelet(words));
    }
}

/// A service that answers every request with its names, which are evil, as text or as JSON.
fn evil_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("its address"));
    let sum = "\"count\": 1, \"wall_ns\": 1, \"cpu_ns\": 1, \"blocked_ns\": 0, \"awaiting_ns\": 0, \"runnable_ns\": 0";
    let name = |name: &str| serde_json::to_string(&evil(name)).expect("JSON");
    let requests = format!(
        "{{\"routes\": [{{\"route\": {}, \"method\": {}, {sum}, \"errors\": 0, \"cancelled\": 0, \"p50_ns\": 1, \
         \"p90_ns\": 1, \"p99_ns\": 1, \"max_ns\": 1, \"slowest\": {{{sum}}}}}]}}",
        name("/route\nfake"),
        name("GET"),
    );
    let tasks = evil("goroutine 1 [sleep]:\nmain.main()\n");
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&mut connection).read_line(&mut line);
            let body = if line.contains("/requests") { &requests } else { &tasks };
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = connection.write_all(&[head.as_bytes(), body.as_bytes()].concat());
        }
    });
    address
}

#[test]
fn what_a_service_says_is_shown() {
    let service = evil_service();
    for verb in ["tasks", "requests"] {
        let answer = run_flamelet([verb, &service]);
        assert_eq!(answer.status, Some(0), "{verb}: {}", answer.stderr);
        assert_tame(&[verb], &answer);
        assert!(answer.stdout.contains("\\x1b]0;owned\\x07"), "{verb} shows it:\n{answer:?}");
    }
    let answer = run_flamelet(["requests", &service]);
    assert!(answer.stdout.contains("/route\\nfake"), "a route is one row: {}", answer.stdout);
    let exact = run_flamelet(["requests", "--json", &service]).stdout;
    let exact: serde_json::Value = serde_json::from_str(&exact).expect("JSON");
    assert_eq!(exact["routes"][0]["method"], evil("GET").as_str());
}

#[test]
fn the_shell_shows_what_a_terminal_would_obey() {
    let mut child = command(flamelet())
        .arg("pprof")
        .arg(profile(5))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("flamelet starts");
    let script = format!("top\ntraces\ntags\npeek .\nfocus={}\no\n{}\n", evil("x"), evil("nonsense"));
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("flamelet reads its input");
    let output = child.wait_with_output().expect("flamelet ends");
    for text in [output.stdout, output.stderr] {
        let text = String::from_utf8(text).expect("text");
        assert_eq!(acting(&text), [], "{text:?}");
        assert!(text.contains("\\x1b]0;owned"), "{text:?}");
    }
}

#[test]
fn files_and_formats_stay_exact() {
    let path = profile(5).display().to_string();
    for verb in ["dot", "callgrind"] {
        assert!(run_flamelet([verb, &path]).stdout.contains("\x1b]0;owned\x07"), "{verb}");
    }
    let json = json_of(["top", "--json", &path]);
    assert!(json["rows"].as_array().expect("rows").iter().any(|row| row["name"] == evil("leaf").as_str()));
    let file = profiles::scratch().join("evil-top.txt");
    let answer = run_flamelet(["top", "-o", file.to_str().expect("UTF-8"), &path]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let text = std::fs::read_to_string(&file).expect("written");
    assert!(text.contains(EVIL.trim_end()), "{text:?}");
}
