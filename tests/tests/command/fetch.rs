//! Profiles from a service: which URL is requested, and what happens if the answer is not a profile.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use flamelet_tests::programs::{self, Answer, answer, command, flamelet};
use flamelet_tests::{profiles, rows};

/// A service that answers every request with the same bytes, and records the requests.
struct Service {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Serves until the test process ends.
    fn start(status: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remember = Arc::clone(&asked);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { continue };
                let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let mut asked = remember.lock().expect("no panic holds it");
                asked.push(request.trim_end_matches(" HTTP/1.1").to_owned());
                asked.extend(headers.into_iter().filter(|line| line.to_lowercase().starts_with("x-")));
                drop(asked);
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body));
            }
        });
        Self { address, asked }
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("no panic holds it"))
    }
}

/// `flamelet heap` requests the endpoint that belongs to the view.
#[test]
fn the_views_of_memory_have_an_address_each() {
    let service = Service::start("200 OK", std::fs::read(profiles::committed("go-heap")).expect("testdata"));
    for (options, asked) in [
        (&[][..], "GET /debug/pprof/heap"),
        (&["--allocated"], "GET /debug/pprof/allocs"),
        (&["--seconds", "5"], "GET /debug/pprof/heap?seconds=5"),
        (&["--peak"], "GET /debug/pprof/peak"),
        (&["--freed"], "GET /debug/pprof/freed"),
        (&["--lifetime"], "GET /debug/pprof/lifetime"),
        (&["--temporary"], "GET /debug/pprof/temporary"),
        (&["--growth"], "GET /debug/pprof/growth?seconds=10"),
        (&["--growth", "--seconds", "60"], "GET /debug/pprof/growth?seconds=60"),
    ] {
        let answer = run_flamelet(&[&["heap", &service.address], options].concat());
        assert_eq!(service.take_asked(), [asked], "{}", answer.stderr);
    }
}

/// The text of a service is shown escaped, so that it cannot control the terminal.
#[test]
fn an_answer_cannot_act_on_the_terminal() {
    let evil = "\x1b]0;owned\x07\u{9b}31m\u{202e}".as_bytes();
    for status in ["500 Internal Server Error", "404 Not Found", "200 OK"] {
        let service = Service::start(status, [b"sorry ", evil, b"\xff\n second line"].concat());
        let answer = run_flamelet(&["top", &service.address]);
        assert_eq!(answer.status, Some(2));
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!answer.stderr.contains(acts) && answer.stdout.is_empty(), "{status}: {:?}", answer.stderr);
    }
}

fn cpu_profile() -> Vec<u8> {
    std::fs::read(profiles::committed("go-cpu")).expect("testdata")
}

fn run_flamelet(arguments: &[&str]) -> Answer {
    answer(command(flamelet()).args(arguments))
}

/// Options, and the part after the host: the request must be the same as pprof's.
const ADDRESSES: &[(&[&str], &str)] = &[
    (&[], ""),
    (&[], "/"),
    (&["-seconds=5"], ""),
    (&[], "/debug/pprof/heap"),
    (&["-seconds=5"], "/debug/pprof/heap"),
    (&[], "/debug/pprof/profile?seconds=7"),
    (&["-seconds=5"], "/debug/pprof/profile?seconds=7"),
    (&[], "/debug/pprof/allocs?gc=1"),
    (&[], "/custom/path"),
];

/// pprof requests the index page here and fails; flamelet requests the CPU profile.
#[test]
fn the_page_of_links_means_the_cpu_profile() {
    let service = Service::start("200 OK", cpu_profile());
    for path in ["/debug/pprof", "/debug/pprof/"] {
        let answer = run_flamelet(&["top", &format!("http://{}{path}", service.address)]);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        assert_eq!(service.take_asked(), ["GET /debug/pprof/profile"]);
    }
}

#[test]
fn the_request_is_the_one_that_pprof_makes() {
    let Some(pprof) = programs::pprof() else { return };
    let service = Service::start("200 OK", cpu_profile());
    let mut differences = Vec::new();
    for scheme in ["http://", ""] {
        for (options, path) in ADDRESSES {
            let source = format!("{scheme}{}{path}", service.address);
            let theirs = answer(command(&pprof).arg("-top").args(*options).arg(&source));
            let expected = service.take_asked();
            let ours = answer(command(flamelet()).args(["pprof", "-top"]).args(*options).arg(&source));
            let found = service.take_asked();
            if expected != found {
                differences.push(format!("{options:?} {source}: pprof {expected:?}, flamelet {found:?}"));
            }
            if rows::rows(&theirs.stdout) != rows::rows(&ours.stdout) {
                differences.push(format!("{options:?} {source}: other rows; {}", ours.stderr));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn own_options() {
    let service = Service::start("200 OK", cpu_profile());
    let url = format!("http://{}", service.address);
    let answer = run_flamelet(&["top", &url, "--seconds", "3", "--header", "X-Team: checkout"]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let asked = service.take_asked();
    assert_eq!(asked[0], "GET /debug/pprof/profile?seconds=3");
    assert!(asked[1].eq_ignore_ascii_case("X-Team: checkout"), "{asked:?}");
    let file = run_flamelet(&["top", &profiles::committed("go-cpu").display().to_string()]);
    assert_eq!(answer.stdout, file.stdout);
}

/// Requests to this machine bypass the proxy of the environment.
#[test]
fn a_proxy_is_for_other_machines() {
    let service = Service::start("200 OK", cpu_profile());
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let mut top = command(flamelet());
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        top.env(variable, format!("http://{nobody}"));
    }
    let told = answer(top.args(["top", &service.address]));
    assert_eq!(told.status, Some(0), "{}", told.stderr);
}

#[test]
fn fetch_keeps_the_profile() {
    let service = Service::start("200 OK", cpu_profile());
    let out = profiles::scratch().join("fetched.pb.gz").display().to_string();
    let answer = run_flamelet(&["fetch", &format!("http://{}", service.address), "-o", &out]);
    assert_eq!(answer.status, Some(0), "{}", answer.stderr);
    let file = profiles::committed("go-cpu").display().to_string();
    assert_eq!(run_flamelet(&["top", &out]).stdout, run_flamelet(&["top", &file]).stdout);
}

/// The message must contain the service's answer.
fn assert_refused(answer: &Answer, about: &str) {
    assert_eq!(answer.status, Some(2), "{answer:?}");
    assert_eq!(answer.stderr.trim_end().lines().count(), 1, "{}", answer.stderr);
    assert!(answer.stderr.contains(about), "no `{about}` in {}", answer.stderr);
}

#[test]
fn services_that_do_not_answer_with_a_profile() {
    let missing = Service::start("404 Not Found", b"Unknown profile\n".to_vec());
    assert_refused(&run_flamelet(&["top", &format!("http://{}", missing.address)]), "404");
    let page = Service::start("200 OK", b"<html>hello</html>".to_vec());
    assert_refused(&run_flamelet(&["top", &format!("http://{}", page.address)]), &page.address);
    let empty = Service::start("200 OK", Vec::new());
    assert_refused(&run_flamelet(&["top", &format!("http://{}", empty.address)]), &empty.address);
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    assert_refused(&run_flamelet(&["top", &format!("http://{nobody}")]), &nobody.to_string());
}
