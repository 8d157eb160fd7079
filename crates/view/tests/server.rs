//! The server from a client's view: real connections on loopback.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use flamelet_report::Report;
use flamelet_report::disasm::Disassembly;
use flamelet_report::profile::{Event, LabelSetId, Profile, ProfileBuilder, Thread, ThreadId, Timeline};
use flamelet_view::{
    CancelToken, CodeOptions, Disassemble, Error, ServeOptions, Server, Source, Take, Taken,
};
use serde_json::Value;

/// Stacks root first, `a;b`, with a label `route`.
fn profile(stacks: &[(&str, &str, i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for (stack, route, value) in stacks {
        let mut locations = Vec::new();
        for name in stack.split(';').rev() {
            let function = builder.named_function(name, "lib.rs");
            locations.push(builder.frame(function, 1));
        }
        let stack = builder.stack(&locations);
        let label = builder.text_label("route", route);
        let labels = if route.is_empty() { LabelSetId::EMPTY } else { builder.labels(&[label]) };
        builder.sample(stack, labels, &[1, *value]);
    }
    builder.finish()
}

fn small() -> Profile {
    profile(&[("main;a;b", "/x", 30), ("main;a", "/y", 40), ("main;c<T>", "/x", 20), ("main;c<U>", "", 10)])
}

/// A server, its address and its token.
#[derive(Clone, Copy)]
struct Viewer {
    address: SocketAddr,
    token: &'static str,
}

impl fmt::Display for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

fn serve(source: Source) -> Viewer {
    serve_at(source, &ServeOptions::default())
}

fn serve_at(source: Source, options: &ServeOptions) -> Viewer {
    let server = Server::bind(source, options).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.address().port()));
    let url = server.url();
    let token = url.split_once("/?token=").expect("the address brings the token").1.to_owned().leak();
    thread::spawn(move || server.run());
    Viewer { address, token }
}

/// Sends one request with the token and reads the answer: its status and its body.
fn ask(viewer: Viewer, method: &str, path: &str, headers: &str) -> (u16, String) {
    let headers = format!("{headers}Authorization: Bearer {}\r\n", viewer.token);
    let (status, _, body) = ask_plainly(viewer.address, method, path, &headers);
    (status, body)
}

/// Sends one request as it is and reads the answer: its status, its head and its body.
fn ask_plainly(address: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

fn get(address: Viewer, path: &str) -> (u16, String) {
    ask(address, "GET", path, &format!("Host: {address}\r\n"))
}

fn json(address: Viewer, path: &str) -> Value {
    let (status, body) = get(address, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The boxes as `name weight`, in order.
fn boxes(flame: &Value) -> Vec<String> {
    let names = flame["names"].as_array().unwrap();
    let columns = flame["name"].as_array().unwrap().iter().zip(flame["weight"].as_array().unwrap());
    columns
        .map(|(name, weight)| match name.as_i64().unwrap() {
            -1 => format!("all {weight}"),
            at => format!("{} {weight}", names[at as usize].as_str().unwrap()),
        })
        .collect()
}

#[test]
fn the_page_and_its_files_are_served() {
    let address = serve(Source::profile("small", small()));
    assert!(get(address, "/").1.contains("<script src=\"app.js\""));
    assert_eq!(get(address, "/app.js").1, flamelet_report::page::script());
    assert_eq!(get(address, "/app.css").1, flamelet_report::page::style());
    assert_eq!(get(address, "/favicon.ico").0, 404);
    let opened = json(address, "/api/open");
    assert_eq!(opened["about"]["title"], "small");
    assert_eq!(opened["about"]["types"][1]["total"], 100);
    assert_eq!(opened["live"], false);
}

#[test]
fn boxes_follow_zoom_direction_and_filters() {
    let address = serve(Source::profile("small", small()));
    let whole = json(address, "/api/flame?w=1000");
    assert_eq!(boxes(&whole), ["all 100", "main 100", "a 70", "b 30", "c<T> 20", "c<U> 10"]);
    let key = |name: &str| {
        let mut digits = Vec::new();
        let mut rest = flamelet_report::flame::name_key(name);
        while rest > 0 {
            digits.push(char::from_digit(rest % 36, 36).unwrap());
            rest /= 36;
        }
        digits.iter().rev().collect::<String>()
    };
    let zoomed = json(address, &format!("/api/flame?w=1000&z={}.{}", key("main"), key("a")));
    assert_eq!(boxes(&zoomed), ["all 100", "main 100", "a 70", "b 30"]);
    assert_eq!(zoomed["zoom"], 2);
    let samples = json(address, "/api/flame?type=samples");
    assert_eq!(boxes(&samples)[0], "all 4");
    let callers = json(address, "/api/flame?dir=callers&fn=a");
    assert_eq!(boxes(&callers), ["a 70", "main 70"]);
    assert_eq!(boxes(&json(address, "/api/flame?f=focus:%5Eb%24")), ["all 30", "main 30", "a 30", "b 30"]);
    assert_eq!(boxes(&json(address, "/api/flame?f=tagfocus:route%3D/x&f=hide:main"))[0], "all 50");
    assert!(boxes(&json(address, "/api/flame?fold=generics")).contains(&"c 30".to_owned()));
    let grouped = boxes(&json(address, "/api/flame?f=tagroot:route"));
    assert!(grouped.contains(&"/x 50".to_owned()), "{grouped:?}");
    let nothing = json(address, "/api/flame?f=focus:nobody");
    assert_eq!(nothing["notes"][0], "focus matched nothing: nobody");
}

#[test]
fn tables_and_searches_answer() {
    let address = serve(Source::profile("small", small()));
    let functions = json(address, "/api/functions?sort=flat");
    assert_eq!(functions["names"][functions["name"][0].as_u64().unwrap() as usize], "a");
    assert_eq!((&functions["flat"][0], &functions["cum"][0]), (&Value::from(40), &Value::from(70)));
    assert_eq!(json(address, "/api/functions?q=%5EC")["count"], 0);
    assert_eq!(json(address, "/api/functions?q=%5Ec")["count"], 2);
    assert_eq!(json(address, "/api/search?q=b%7Cc")["weight"], 60);
    let children = json(address, "/api/children?z=");
    assert_eq!((&children[0]["name"], &children[0]["leaf"]), (&Value::from("main"), &Value::from(false)));
    let tags = json(address, "/api/tags");
    assert_eq!((&tags[0]["key"], &tags[0]["values"][0]["weight"]), (&Value::from("route"), &Value::from(50)));
    let graph = json(address, "/api/graph");
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(get(address, "/api/timeline").0, 404);
    assert_eq!(get(address, "/api/code?fn=a").0, 404, "source is off by default");
}

#[test]
fn the_heap_is_shown_by_size_and_by_place() {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    let function = builder.named_function("shop::cart::add", "");
    let frame = builder.frame(function, 1);
    let stack = builder.stack(&[frame]);
    for (size, objects) in [(64, 3), (300, 2)] {
        let label = builder.number_label("bytes", size, "bytes");
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[objects, size * objects]);
    }
    let address = serve(Source::profile("heap", builder.finish()));
    assert_eq!(json(address, "/api/open")["about"]["is_heap"], true);
    let heap = json(address, "/api/heap");
    assert_eq!(heap["sizes"].as_array().unwrap().len(), 3, "64, the gap of 128, 256");
    assert_eq!(heap["sites"]["values"][1][0], 3 * 64 + 2 * 300);
    let filter = heap["sizes"][2]["filter"].as_str().unwrap();
    assert_eq!(json(address, &format!("/api/heap?f=tagfocus:{filter}"))["sites"]["values"][1][0], 600);
    let cpu = serve(Source::profile("small", small()));
    assert_eq!(json(cpu, "/api/open")["about"]["is_heap"], false);
}

#[test]
fn differences_show_both_sides() {
    let new = profile(&[("main;a", "", 30), ("main;b", "", 5)]);
    let source = Source::profiles(vec![("before".into(), small()), ("after".into(), new)]);
    let address = serve(source);
    let flame = json(address, "/api/flame?base=0");
    assert_eq!(flame["diff"], true);
    assert_eq!(boxes(&flame)[0], "all 135");
    assert_eq!(
        (&flame["sides"]["new"][0], &flame["sides"]["base"][0]),
        (&Value::from(35), &Value::from(100))
    );
    let about = json(address, "/api/open?base=0");
    assert_eq!(about["about"]["is_diff"], true);
    assert_eq!(about["about"]["types"][1]["base_total"], 100);
    assert!(about["about"]["label_keys"].as_array().unwrap().iter().all(|key| key != "pprof::base"));
    let tags = json(address, "/api/tags?base=0");
    let route = &tags[0];
    assert_eq!((&route["key"], &route["new"], &route["base"]), (&"route".into(), &0.into(), &90.into()));
    let graph = json(address, "/api/graph?base=0");
    let of_main = graph["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "main").unwrap();
    assert_eq!((&of_main["cum_new"], &of_main["cum_base"]), (&35.into(), &100.into()));
    let edges = graph["edges"].as_array().unwrap();
    let to_a = edges.iter().find(|edge| edge["new"] == 30).expect("main calls a");
    assert_eq!(to_a["base"], 70);
}

/// One run of a program: functions with how many samples each has.
fn run(counts: &[i64]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for (number, count) in counts.iter().enumerate() {
        let function = builder.named_function(&format!("shop::f{number}"), "");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        builder.sample(stack, LabelSetId::EMPTY, &[*count, count * 10_000_000]);
    }
    builder.finish()
}

/// Two runs of an unchanged program differ by more than sampling noise.
#[test]
fn the_table_calls_changed_what_flamelet_diff_calls_changed() {
    let base = run(&[10_000; 10]);
    let again = run(&[11_500, 8_500, 10_000, 11_500, 8_500, 10_000, 11_500, 8_500, 10_000, 10_500]);
    let mut slower = vec![10_000; 10];
    slower[3] = 30_000;
    let sides = [("base", base), ("again", again), ("slower", run(&slower))];
    let address = serve(Source::profiles(sides.map(|(name, run)| (name.to_owned(), run)).to_vec()));
    let real = |new: u32| {
        let functions = json(address, &format!("/api/functions?p={new}&base=0&sort=name"));
        ["flat_real", "cum_real"].map(|key| {
            let marks = functions[key].as_array().expect("a difference has verdicts").iter();
            let marked = marks.enumerate().filter(|(_, is_real)| is_real.as_bool().unwrap());
            marked.map(|(at, _)| at).collect::<Vec<_>>()
        })
    };
    assert_eq!(real(1), [const { Vec::<usize>::new() }; 2]);
    assert_eq!(real(2), [vec![3], vec![3]]);
    assert!(json(address, "/api/functions?p=0").get("flat_real").is_none(), "nothing is compared");
}

#[test]
fn a_time_range_has_figures_of_its_own() {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let mut events = Vec::new();
    for (at, name) in ["early", "late", "late::too"].into_iter().enumerate() {
        let function = builder.named_function(name, "");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        let label = builder.text_label(name, "yes");
        let labels = builder.labels(&[label]);
        let sample = builder.sample(stack, labels, &[10]) as u32;
        let thread = ThreadId::from_index(at);
        events.push(Event { time: 1000 * at as u64, sample, thread, value: 10 });
    }
    let timeline = Timeline { threads: vec![Thread::default(); 3], events, ..Timeline::default() };
    let address = serve(Source::profile("timed", builder.finish_with(Some(timeline), None)));
    let figures = |path: &str| {
        let about = &json(address, path)["about"];
        let keys = ["samples", "stacks", "functions", "locations", "threads"];
        let counts = keys.map(|key| about[key].as_u64().expect("a count"));
        (counts, about["label_keys"].clone(), about["is_part"] == true)
    };
    assert_eq!(figures("/api/open"), ([3; 5], serde_json::json!(["early", "late", "late::too"]), false));
    assert_eq!(figures("/api/open?t=0-500"), ([1; 5], serde_json::json!(["early"]), true));
    assert_eq!(figures("/api/open?t=500-2500").0, [2; 5]);
    let faults = json(address, "/api/judged?t=5000-6000")["faults"].to_string();
    assert!(faults.contains("no samples"), "the range is judged, not the recording: {faults}");
}

#[test]
fn only_its_own_name_and_its_own_page_are_answered() {
    let address = serve(Source::profile("small", small()));
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:1"] {
        assert_eq!(ask(address, "GET", "/", &format!("Host: {host}\r\n")).0, 403, "{host}");
    }
    let own = format!("Host: localhost:{}\r\n", address.address.port());
    // The port may have been forwarded to another one.
    for host in [own.as_str(), "Host: localhost:1\r\n", "Host: 10.0.0.7:9000\r\n"] {
        assert_eq!(ask(address, "GET", "/", host).0, 200, "{host}");
    }
    assert_eq!(ask(address, "POST", "/api/take", &own).0, 403);
    assert_eq!(ask(address, "POST", "/api/take", &format!("{own}X-Flamelet: 1\r\n")).0, 400);
}

#[test]
fn a_folder_gives_its_own_files_and_those_of_its_subfolders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, age: u64| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    write("one.pb", "1", 60);
    write("broken.pb", "x", 30);
    write("older.pb", "1", 90);
    // As a service that writes profiles at intervals draws them.
    write("one.svg", "<svg/>", 10);
    write("one.html", "<html>", 10);
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    write("inner/two.pb", "1", 20);
    let open = |path: &Path| match std::fs::read(path).unwrap().as_slice() {
        b"1" => Ok(small()),
        _ => Err(format!("{}: not a profile", path.file_name().unwrap().to_string_lossy())),
    };
    let address = serve(Source::folder(folder.path(), open));
    let opened = json(address, "/api/open");
    assert!(opened["about"].is_null());
    let names: Vec<_> =
        opened["entries"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["older.pb", "one.pb", "broken.pb", "inner/two.pb"], "profiles, oldest first");
    assert_eq!(json(address, "/api/open?p=inner%2Ftwo.pb")["about"]["title"], "inner/two.pb");
    assert_eq!(json(address, "/api/open?p=one.pb")["about"]["title"], "one.pb");
    assert_eq!(get(address, "/api/open?p=broken.pb"), (422, "broken.pb: not a profile\n".to_owned()));
    for path in ["../one.pb", "inner", "/etc/passwd", "./one.pb", "inner/../one.pb", "one.svg"] {
        assert_eq!(get(address, &format!("/api/open?p={path}")).0, 404, "{path}");
    }
}

struct Service;

impl Take for Service {
    fn take(&self, seconds: u32, _: &CancelToken) -> Result<Taken, Error> {
        match seconds {
            13 => Err(flamelet_view::Error::unreadable("the service is down")),
            _ => Ok(Taken { name: format!("{seconds} s"), profile: small() }),
        }
    }
}

#[test]
fn a_live_service_is_asked_for_more() {
    let address = serve(Source::live(vec![], Service));
    assert!(json(address, "/api/open")["about"].is_null());
    let headers = format!("Host: {address}\r\nX-Flamelet: 1\r\n");
    let (status, body) = ask(address, "POST", "/api/take?seconds=5", &headers);
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["name"], "5 s");
    assert_eq!(json(address, "/api/open")["about"]["title"], "5 s");
    assert_eq!(ask(address, "POST", "/api/take?heap=lifetime", &headers).0, 422, "this one has no heap");
    assert_eq!(ask(address, "POST", "/api/take?heap=nonsense", &headers).0, 400);
    assert_eq!(
        ask(address, "POST", "/api/take?seconds=13", &headers),
        (422, "the service is down\n".to_owned())
    );
}

#[test]
fn a_live_viewer_lets_old_profiles_go_and_shows_the_newest() {
    let address = serve(Source::live(vec![], Service));
    let headers = format!("Host: {address}\r\nX-Flamelet: 1\r\n");
    for seconds in 20..46 {
        assert_eq!(ask(address, "POST", &format!("/api/take?seconds={seconds}"), &headers).0, 200);
    }
    let opened = json(address, "/api/open");
    assert_eq!((&opened["let_go"], opened["entries"].as_array().unwrap().len()), (&2.into(), 24));
    assert_eq!(opened["about"]["title"], "45 s");
    assert_eq!(get(address, "/api/flame?p=1").0, 404);
    assert_eq!(boxes(&json(address, "/api/flame?p=2"))[0], "all 100");
}

#[test]
fn the_viewer_lives_inside_another_router() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let router = flamelet_view::router(Source::profile("small", small()));
    let app = axum::Router::new().nest("/debug/view/", router);
    runtime.spawn(async move { axum::serve(listener, app).await });
    let address = Viewer { address, token: "none" };
    assert!(get(address, "/debug/view/").1.contains("<script src=\"app.js\""));
    assert_eq!(get(address, "/debug/view/app.js").0, 200);
    assert_eq!(json(address, "/debug/view/api/open")["about"]["title"], "small");
}

#[test]
fn nothing_answers_without_the_token() {
    let viewer = serve(Source::live(vec![], Service));
    let host = format!("Host: {viewer}\r\n");
    let paths =
        ["/", "/app.js", "/app.css", "/api/open", "/api/flame", "/api/code?fn=a", "/nothing", "/?token="];
    for path in paths.iter().copied().chain(["/api/open?token=0123456789abcdef0123456789abcdef"]) {
        let (status, head, body) = ask_plainly(viewer.address, "GET", path, &host);
        assert_eq!(status, 403, "{path}");
        assert!(
            body.contains("?token=") && !head.to_lowercase().contains("set-cookie"),
            "{path}: {head}{body}"
        );
    }
    let taking = format!("{host}X-Flamelet: 1\r\n");
    assert_eq!(ask_plainly(viewer.address, "POST", "/api/take?seconds=5", &taking).0, 403);
    assert!(json(viewer, "/api/open")["entries"].as_array().unwrap().is_empty(), "nothing was taken");
}

#[test]
fn the_address_gives_the_browser_a_cookie() {
    let viewer = serve(Source::live(vec![], Service));
    let host = format!("Host: {viewer}\r\n");
    let (status, head, _) = ask_plainly(viewer.address, "GET", &format!("/?token={}", viewer.token), &host);
    assert_eq!(status, 200);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("{host}Cookie: theme=dark; {}\r\n", cookie.split_once(';').unwrap().0);
    assert_eq!(ask_plainly(viewer.address, "GET", "/api/open", &cookie).0, 200);
    let taking = format!("{cookie}X-Flamelet: 1\r\n");
    assert_eq!(ask_plainly(viewer.address, "POST", "/api/take?seconds=5", &taking).0, 200);
    // A request for another host name is refused, even with the token.
    let rebound = "Host: evil.example\r\n";
    assert_eq!(ask_plainly(viewer.address, "GET", &format!("/?token={}", viewer.token), rebound).0, 403);
}

/// A profile with the one function `f` in `file`, and where its code is shown from.
fn code_of(file: &Path, source_path: &Path, confirmed: &[&Path]) -> Source {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let function = builder.named_function("f", file.to_str().unwrap());
    let frame = builder.frame(function, 1);
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[1]);
    let confirmed = confirmed.iter().map(|path| path.display().to_string()).collect();
    Source::profile("named", builder.finish()).with_code(CodeOptions {
        source_path: source_path.display().to_string(),
        disassembler: Some(Box::new(Binaries(confirmed))),
        ..CodeOptions::default()
    })
}

/// Binaries that confirm these source files, and have no code.
struct Binaries(BTreeSet<String>);

impl Disassemble for Binaries {
    fn confirmed_sources(&self, _: &Report) -> BTreeSet<String> {
        self.0.clone()
    }

    fn disassemble(&self, _: &Report, _: &str) -> Result<Disassembly, String> {
        Err("no code".to_owned())
    }
}

#[test]
fn only_source_files_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("f.rs"), "fn f() {}\n").unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s3cret\n").unwrap();
    std::os::unix::fs::symlink(&secret, inside.join("link.rs")).unwrap();
    let shown = |file: &Path, confirmed: &[&Path]| {
        let viewer = serve(code_of(file, &inside, confirmed));
        json(viewer, "/api/code?fn=f")["files"][0].clone()
    };
    let below = shown(&inside.join("f.rs"), &[]);
    assert_eq!(
        (&below["lines"][0]["text"], &below["missing"]),
        (&"fn f() {}".into(), &serde_json::Value::Null)
    );
    assert_eq!(shown(&secret, &[&secret])["lines"][0]["text"], "s3cret", "its own binary says so");
    let secrets = [secret.clone(), inside.join("link.rs"), inside.join("../secret"), "/etc/passwd".into()];
    for file in secrets {
        let refused = shown(&file, &[&inside.join("f.rs")]);
        assert_eq!(refused["lines"][0]["text"], "", "{}", file.display());
        assert!(refused["missing"].as_str().unwrap().contains("--source-path"), "{refused}");
    }
}

#[test]
fn no_code_is_shown_beyond_loopback_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.rs");
    std::fs::write(&file, "fn f() {}\n").unwrap();
    let everywhere = ServeOptions { host: Some("0.0.0.0".into()), ..ServeOptions::default() };
    let source = || code_of(&file, folder.path(), &[]);
    let others = serve_at(source(), &everywhere);
    assert_eq!(get(others, "/api/code?fn=f").0, 404);
    let opened = json(others, "/api/open");
    assert_eq!(opened["code"], false);
    assert!(opened["no_code"].as_str().unwrap().contains("--serve-sources"), "{opened}");
    let asked_for = serve_at(source(), &ServeOptions { code_beyond_loopback: true, ..everywhere });
    assert_eq!(json(asked_for, "/api/code?fn=f")["files"][0]["lines"][0]["text"], "fn f() {}");
    assert_eq!(json(serve(source()), "/api/open")["no_code"], "");
}

#[test]
fn the_summary_knows_the_frames_that_the_pictures_drop() {
    let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes"), ("alloc_space", "bytes")]);
    builder.set_drop_frames("alloc::raw_vec::.*");
    for (leaf, value) in [("alloc::raw_vec::finish_grow", 300), ("shop::reserve", 700)] {
        let stack = [(leaf, ""), ("shop::fill", "/home/me/shop/src/main.rs")].map(|(name, file)| {
            let function = builder.named_function(name, file);
            builder.frame(function, 7)
        });
        let stack = builder.stack(&stack);
        builder.sample(stack, LabelSetId::EMPTY, &[value, value]);
    }
    let address = serve(Source::profile("heap", builder.finish()));
    let found = boxes(&json(address, "/api/flame"));
    assert_eq!(found, ["all 1000", "shop::fill 1000", "shop::reserve 700"], "the allocator is not drawn");
    let growing = |path: &str| {
        let findings = json(address, path)["explanation"]["findings"].clone();
        findings.as_array().unwrap().iter().find(|finding| finding["rule"] == "growing").cloned()
    };
    let finding = growing("/api/summary?type=alloc_space").expect("the summary looks below");
    assert_eq!(finding["places"][0]["function"], "shop::fill");
    assert!((finding["share"].as_f64().unwrap() - 0.3).abs() < 1e-9, "{finding}");
    assert!(growing("/api/summary?f=ignore:finish_grow").is_none(), "filters apply there, too");
}
