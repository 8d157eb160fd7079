//! Real clients: Go's pprof and curl, against a live server.

use crate::pprof::{lacks, lacks_pprof, pprof_at_home, run_pprof, runs};
use crate::service::{Burner, DEADLINE, Service, again_until};
use flamelet::Profiler;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn lacks_curl() -> bool {
    lacks("curl", runs("curl".as_ref(), "--version"))
}

fn lacks_chromium() -> bool {
    lacks("chromium", runs(&chromium(), "--version"))
}

fn chromium() -> OsString {
    std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into())
}

/// What pprof prints of a busy service, with its busy function in it.
#[track_caller]
fn run_pprof_on_burner(arguments: &[&str], url: &str) -> String {
    again_until(|| run_pprof(arguments, url), |printed| printed.contains("burn_cycles"))
}

#[test]
fn go_tool_pprof_reads_the_live_profile() {
    if lacks_pprof() {
        return;
    }
    let service = Service::start(Profiler::builder());
    let _burner = Burner::start();
    let url = service.url("/debug/pprof/profile?seconds=1");
    let top = run_pprof_on_burner(&["-top", "-nodecount=500"], &url);
    assert!(top.contains("Type: cpu"), "{top}");
    run_pprof_on_burner(&["-top", "-seconds=1"], &service.url("/debug/pprof/profile"));
    // What its `web` and its page draw.
    let dot = run_pprof_on_burner(&["-dot", "-nodefraction=0", "-edgefraction=0"], &url);
    assert!(dot.starts_with("digraph"), "{dot}");
    // The paths of the Axum profiler crate.
    run_pprof_on_burner(&["-top"], &service.url("/pprof/profile/report?seconds=1"));
}

#[test]
fn go_tool_pprof_names_a_raw_profile_by_asking_the_service() {
    if lacks_pprof() {
        return;
    }
    let service = Service::start(Profiler::builder().symbolize(false));
    let _burner = Burner::start();
    let url = service.url("/debug/pprof/profile?seconds=1");
    run_pprof_on_burner(&["-top", "-symbolize=remote"], &url);
}

/// pprof's own server, ended with the test.
struct PprofServer(Child);

impl Drop for PprofServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pprofs_own_page_shows_the_live_profile() {
    if lacks_pprof() || lacks_curl() {
        return;
    }
    let service = Service::start(Profiler::builder());
    let _burner = Burner::start();
    // The page has the service's functions.
    again_until(|| pprofs_own_page(&service), |page| page.contains("burn_cycles"));
}

/// The flame graph of pprof's own server, which takes a profile when it starts.
fn pprofs_own_page(service: &Service) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut command = pprof_at_home(home.path());
    // It chooses a free port and says which.
    command.args(["-no_browser", "-http=127.0.0.1:", &service.url("/debug/pprof/profile?seconds=1")]);
    let mut server = PprofServer(command.stderr(Stdio::piped()).spawn().expect("pprof runs"));
    let mut said = BufReader::new(server.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let address = said.find_map(|line| line.strip_prefix("Serving web UI on ").map(str::to_owned));
    let url = address.expect("pprof says where its page is") + "/ui/flamegraph";
    let start = Instant::now();
    loop {
        let curl =
            Command::new("curl").args(["-sS", "--noproxy", "*", "--fail", &url]).output().expect("curl runs");
        if curl.status.success() {
            return String::from_utf8_lossy(&curl.stdout).into_owned();
        }
        assert!(start.elapsed() < DEADLINE, "{}", String::from_utf8_lossy(&curl.stderr));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_default_scrape_set_is_readable() {
    if lacks_pprof() {
        return;
    }
    let service = Service::start(Profiler::builder());
    for (name, kind) in [
        ("allocs", "alloc_space"),
        ("block", "delay"),
        ("goroutine", "goroutine"),
        ("mutex", "delay"),
        ("profile?seconds=1", "cpu"),
        ("heap", "inuse_space"),
        ("threadcreate", "threadcreate"),
        ("growth?seconds=1", "growth_space"),
        ("peak", "peak_space"),
    ] {
        let raw = run_pprof(&["-raw"], &service.url(&format!("/debug/pprof/{name}")));
        let types = raw.lines().find(|line| line.contains('/')).unwrap_or_default();
        assert!(raw.contains(&format!("{kind}/")), "{name}: {types}");
    }
    for name in ["goroutine?debug=1", "threadcreate?debug=1", "heap?debug=1", "profile?seconds=1&debug=1"] {
        run_pprof(&["-raw"], &service.url(&format!("/debug/pprof/{name}")));
    }
}

#[test]
fn pprof_shows_the_text_of_a_refusal() {
    if lacks_pprof() {
        return;
    }
    let service = Service::start(Profiler::builder());
    let home = tempfile::tempdir().expect("a temporary folder");
    let url = service.url("/debug/pprof/profile?seconds=99999");
    let output = pprof_at_home(home.path()).args(["-top", &url]).output().expect("pprof runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("from 1 to 600"), "{error}");
}

/// Returns a page as text, after a browser has run its scripts.
fn open_in_chromium(url: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    // A browser that hangs fails the test instead of stopping it for ever.
    let output = Command::new("timeout")
        .arg("300")
        .arg(chromium())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg("--no-proxy-server")
        .arg(format!("--user-data-dir={}", home.path().display()))
        // It creates a socket in the temporary folder, whose path must be short, and writes to the user's home.
        .env("TMPDIR", "/tmp")
        .env("HOME", home.path())
        // The limit of virtual time; the page ends when nothing is left to do.
        .args(["--virtual-time-budget=30000", "--dump-dom", url])
        .output()
        .expect("timeout is of coreutils");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_browser_gets_the_flame_graph() {
    if lacks_chromium() {
        return;
    }
    let service = Service::start(Profiler::builder().name("browsed"));
    let _burner = Burner::start();
    for path in ["/debug/pprof/profile?seconds=1", "/pprof/profile/flamegraph?seconds=1"] {
        let url = service.url(path);
        let page = again_until(|| open_in_chromium(&url), |page| page.contains("burn_cycles"));
        // Only the page's script, or a picture that was read as one, has these.
        let is_drawn = page.contains("aria-label=\"Flame graph") || page.contains("<svg");
        assert!(is_drawn, "{path}: {}", &page[..page.len().min(2000)]);
    }
}

#[test]
fn curl_as_the_guides_have_it() {
    if lacks_curl() {
        return;
    }
    let service = Service::start(Profiler::builder());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("profile.pb.gz");
    let curl = Command::new("curl")
        .args([
            "-sSL",
            "--noproxy",
            "*",
            "-H",
            "Connection: keep-alive",
            "-H",
            "Keep-Alive: timeout=60,max=100",
            "-o",
        ])
        .arg(&file)
        .arg(service.url("/pprof/profile/report?seconds=1"))
        .status()
        .expect("curl runs");
    assert!(curl.success());
    let bytes = std::fs::read(&file).expect("written");
    assert_eq!(bytes.get(..2), Some(&[0x1f, 0x8b][..]));
}
