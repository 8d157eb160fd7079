//! Debug files from a server, over real HTTP on this machine.
#![cfg(feature = "debuginfod")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use flamelet_symbol::buildid;
use flamelet_symbol::locate::{Search, Servers, WantedBinary};
use support::{Program, run};

/// Answers each request with the file if the path matches, else with 404; sends the requested path to the test.
fn serve(path: String, body: Vec<u8>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let asked = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let (status, body) =
                if asked == path { ("200 OK", &body[..]) } else { ("404 Not Found", &b"no"[..]) };
            // Before the answer, so that the request is counted when the client has it.
            let _ = sender.send(asked);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            // The client may hang up; the test checks the outcome.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    (url, requests)
}

fn stripped() -> (Program, PathBuf, String) {
    let program = Program::c(&["-O2", "-g", "-Wl,--build-id"]);
    let id = buildid::of_file(&program.path).expect("an ELF file").expect("the linker wrote one").to_string();
    let debug = program.file("program.debug");
    run(Command::new("objcopy").arg("--only-keep-debug").args([&program.path, &debug]));
    run(Command::new("strip").arg(&program.path));
    (program, debug, id)
}

fn search(url: &str, cache: &Path) -> Search {
    let servers = Servers {
        urls: vec![url.to_owned()],
        cache: Some(cache.to_owned()),
        timeout: Some(Duration::from_secs(20)),
    };
    Search { debug_folders: Vec::new(), servers, ..Search::default() }
}

#[test]
fn fetched_once_then_cached() {
    let (program, debug, id) = stripped();
    let bytes = fs::read(&debug).expect("readable");
    let (url, requests) = serve(format!("/buildid/{id}/debuginfo"), bytes.clone());
    let cache = program.file("cache");
    let search = search(&url, &cache);
    for _ in 0..2 {
        let located = search.locate(&WantedBinary { path: &program.path, build_id: &id });
        assert_eq!(located.warnings, Vec::<String>::new());
        assert_eq!(fs::read(located.debug.expect("fetched")).expect("readable"), bytes);
    }
    assert_eq!(requests.try_iter().count(), 1, "the second time it comes from the cache");
}

#[test]
fn a_server_without_the_file_or_with_another() {
    let (program, _, id) = stripped();
    let (url, requests) = serve("/nothing".to_owned(), Vec::new());
    let located =
        search(&url, &program.file("cache")).locate(&WantedBinary { path: &program.path, build_id: &id });
    assert_eq!((located.debug, located.warnings), (None, Vec::new()));
    assert_eq!(requests.try_iter().count(), 1);

    let (url, _requests) = serve(format!("/buildid/{id}/debuginfo"), b"not that file".to_vec());
    let located =
        search(&url, &program.file("cache")).locate(&WantedBinary { path: &program.path, build_id: &id });
    assert_eq!(located.debug, None);
    assert_eq!(located.warnings.len(), 1, "{:?}", located.warnings);
    let left = fs::read_dir(program.file("cache/debuginfod").join(&id)).expect("made").count();
    assert_eq!(left, 0, "nothing half-written stays");

    let gone = search("http://127.0.0.1:1", &program.file("cache"));
    let located = gone.locate(&WantedBinary { path: &program.path, build_id: &id });
    assert!(located.warnings[0].starts_with("http://127.0.0.1:1/buildid/"), "{:?}", located.warnings);
}
