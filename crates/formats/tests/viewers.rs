//! Our files, opened by the viewers that they are written for: speedscope's page in Chromium, the Firefox profiler
//! under node. Both come from npm, once, into the target folder.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use flamelet_formats::{Format, FormatOptions, write};
use support::{download, folder, need, open_bytes};

const PACKAGES: [&str; 2] = ["speedscope@1.25.0", "@firefox-devtools/profiler-cli@0.10.0"];

/// Three samples of `main;work;leaf` and one of `main;rest`, a millisecond each, on one thread.
fn sampled() -> Vec<u8> {
    let frame = |name: &str, address: u64| format!("\t{address:x} {name}+0x10 (/usr/bin/server)\n");
    let stacks: [&[(&str, u64)]; 4] = [
        &[("leaf", 0x1010), ("work", 0x2010), ("main", 0x3010)],
        &[("leaf", 0x1010), ("work", 0x2010), ("main", 0x3010)],
        &[("leaf", 0x1010), ("work", 0x2010), ("main", 0x3010)],
        &[("rest", 0x4010), ("main", 0x3010)],
    ];
    let mut text = String::new();
    for (number, stack) in stacks.iter().enumerate() {
        text += &format!("server 10/11 [000] 1.00{number}000: 1000000 cpu-clock:u: \n");
        stack.iter().for_each(|(name, address)| text += &frame(name, *address));
        text.push('\n');
    }
    text.into_bytes()
}

/// The same, and a second process that does the same ten milliseconds later.
fn sampled_twice() -> Vec<u8> {
    let first = String::from_utf8(sampled()).expect("ASCII");
    let second = first.replace("server 10/11", "client 20/21").replace(" 1.00", " 1.01");
    format!("{first}{second}").into_bytes()
}

fn written(format: Format) -> PathBuf {
    written_as("sampled", &sampled(), format)
}

fn written_as(name: &str, samples: &[u8], format: Format) -> PathBuf {
    let profile = open_bytes(samples, Format::PerfScript).profile;
    let file = folder("viewers").join(format!("{name}.{}", format.extensions()[0]));
    write(&profile, format, &mut std::fs::File::create(&file).unwrap(), &FormatOptions::default()).unwrap();
    file
}

/// A folder with the packages in its `node_modules`.
fn packages() -> PathBuf {
    static INSTALLED: std::sync::Mutex<()> = std::sync::Mutex::new(());
    need("npm", "npm");
    let folder = folder("npm");
    let _one_at_a_time = INSTALLED.lock();
    let done = folder.join(PACKAGES.join("+").replace('/', "-"));
    if !done.exists() {
        // Run in that folder: with `--prefix`, npm would look there for the machine's settings too, and not find
        // the certificates that some machines have.
        std::fs::write(folder.join("package.json"), "{ \"private\": true }\n").unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]);
        if std::env::var_os("NODE_EXTRA_CA_CERTS").is_none() {
            npm.env("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt");
        }
        download(npm.args(PACKAGES).current_dir(&folder).stdin(Stdio::null()));
        std::fs::write(done, "").unwrap();
    }
    folder
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let known = digit <= chunk.len();
            let at = (word >> (18 - 6 * digit) & 63) as usize;
            text.push(if known { DIGITS[at] as char } else { '=' });
        }
    }
    text
}

/// The share of each function itself, as speedscope's page shows it for the first profile of the file.
fn in_speedscope(file: &Path) -> BTreeMap<String, String> {
    rows(&speedscope_page(file))
}

/// The page of speedscope with a file opened, as text.
fn speedscope_page(file: &Path) -> String {
    need("chromium", "chromium");
    let page = packages().join("node_modules/speedscope/dist/release/index.html");
    let name = file.file_name().unwrap().to_string_lossy();
    // How speedscope's own command hands a file to its page.
    let script = file.with_extension("js");
    let load =
        format!("speedscope.loadFileFromBase64('{name}', '{}')", base64(&std::fs::read(file).unwrap()));
    std::fs::write(&script, load).unwrap();
    let address = format!("file://{}#localProfilePath={}&view=sandwich", page.display(), script.display());
    // It may run out of time if it starts from a cold disk while other tests run.
    let mut said = String::new();
    for attempt in 0..3 {
        let profile = format!("chromium-{}-{name}-{attempt}", std::process::id());
        let output = dumped(&address, &folder("viewers").join(profile));
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !rows(&page).is_empty() {
            return page;
        }
        said = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    panic!("Chromium shows no row of {name}: {said}");
}

/// Returns a page as rendered by Chromium.
fn dumped(address: &str, profile: &Path) -> Output {
    let mut chromium = Command::new("timeout");
    chromium.args(["180", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    chromium.arg(format!("--user-data-dir={}", profile.display()));
    chromium.args(["--virtual-time-budget=20000", "--dump-dom", address]);
    // It creates a socket in the temporary folder, whose path must be short, and writes to the user's home.
    std::fs::create_dir_all(profile).unwrap();
    chromium.env("TMPDIR", "/tmp").env("HOME", profile).stdin(Stdio::null());
    chromium.output().expect("coreutils")
}

/// The rows of the sandwich's table: total, itself, name.
fn rows(page: &str) -> BTreeMap<String, String> {
    let rows = page.split("<tr").skip(1).filter_map(|row| {
        let cells: Vec<String> = row.split("</td>").map(without_tags).collect();
        let [_total, own, name, ..] = &cells[..] else { return None };
        let share = own.rsplit_once('(')?.1.trim_end_matches(')').to_owned();
        Some((name.clone(), share.replace("&lt;", "<")))
    });
    rows.collect()
}

fn without_tags(html: &str) -> String {
    let mut inside = false;
    let text = html.chars().filter(|&c| {
        let shown = !inside && c != '<' && c != '>';
        inside = (inside || c == '<') && c != '>';
        shown
    });
    let text: String = text.collect();
    // The first cell begins with the rest of the row's own tag.
    text.rsplit_once('"').map_or(text.as_str(), |(_, text)| text).to_owned()
}

#[test]
fn speedscope_opens_every_format_it_knows() {
    let formats = [
        Format::Speedscope,
        Format::Pprof,
        Format::Folded,
        Format::Callgrind,
        Format::TraceEvent,
        Format::CpuProfile,
    ];
    for format in formats {
        let shares = in_speedscope(&written(format));
        let names: Vec<&str> = shares.keys().map(String::as_str).collect();
        assert_eq!(names, ["leaf", "main", "rest", "work"], "{format}");
        // speedscope gives the last sample of a .cpuprofile no time.
        let expected = if format == Format::CpuProfile { ["100%", "<0.01%"] } else { ["75%", "25%"] };
        assert_eq!([&*shares["leaf"], &*shares["rest"]], expected, "{format}");
        assert_eq!(shares["main"], "<0.01%", "{format}");
    }
}

/// Asks the Firefox profiler about a file; one answer for each question.
fn in_firefox<const N: usize>(file: &Path, questions: [&[&str]; N]) -> [Output; N] {
    let command = packages().join("node_modules/.bin/profiler-cli");
    let name = file.file_stem().expect("a file").to_string_lossy().into_owned();
    let sessions = folder("viewers").join(format!("firefox-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&sessions).unwrap();
    let cli = |words: &[&str]| {
        let mut cli = Command::new(&command);
        // Its socket is there, and the path of a socket must be short.
        cli.current_dir(&sessions).env("PROFILER_CLI_SESSION_DIR", ".");
        cli.args(words).args(["--session", "test"]).stdin(Stdio::null());
        cli
    };
    // Its `load` waits half a second for this to be ready, which a busy machine may not manage.
    let file = file.to_str().expect("UTF-8");
    let mut daemon = cli(&["--daemon", file]).spawn().expect("node starts");
    let ask = |words: &[&str]| cli(words).output().ok().filter(|output| output.status.success());
    // With a pause in between: each request starts a node process, which takes time from the daemon. And not before the
    // daemon has written its last file: who asks earlier takes it for dead, and removes its socket.
    let has_begun = || std::fs::read(sessions.join("current.txt")).is_ok_and(|session| !session.is_empty());
    let ready = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        has_begun() && ask(&["profile", "info"]).is_some()
    });
    // Each waits a second for its connection.
    let answers = questions.map(|words| (0..5).find_map(|_| ask(words)));
    let _ = daemon.kill();
    let _ = daemon.wait();
    assert!(ready, "the profiler does not answer");
    answers.map(|answer| answer.expect("an answer"))
}

#[test]
fn speedscope_shows_each_process_and_thread() {
    let page = speedscope_page(&written_as("twice", &sampled_twice(), Format::Speedscope));
    // It shows the first of them, and how many there are.
    assert!(page.contains("[10] / server (11)"), "{page}");
    assert!(page.contains("1/2"), "{page}");
}

#[test]
fn the_firefox_profiler_shows_processes_threads_and_times() {
    let file = written_as("twice", &sampled_twice(), Format::Firefox);
    let questions: [&[&str]; 4] = [
        &["thread", "list"],
        &["thread", "select", "t-1"],
        // The last sample of the second process.
        &["zoom", "push", "0.0125,0.0145"],
        &["thread", "functions", "--json"],
    ];
    let [threads, _, _, functions] = in_firefox(&file, questions);
    let threads = String::from_utf8(threads.stdout).unwrap();
    for word in ["server", "client", "10", "20"] {
        assert!(threads.contains(word), "{word} in {threads}");
    }
    let answer: serde_json::Value = serde_json::from_slice(&functions.stdout).unwrap();
    assert_eq!(answer["friendlyThreadName"], "client", "{answer}");
    let own =
        answer["functions"].as_array().unwrap().iter().find(|function| function["selfPercentage"] == 100);
    assert_eq!(own.expect("one function")["nameWithLibrary"], "server!rest", "{answer}");
}

#[test]
fn the_firefox_profiler_opens_its_format() {
    let questions: [&[&str]; 2] = [&["thread", "functions", "--json"], &["profile", "info"]];
    let [functions, processes] = in_firefox(&written(Format::Firefox), questions);
    let answer: serde_json::Value = serde_json::from_slice(&functions.stdout).unwrap();
    let processes = String::from_utf8(processes.stdout).unwrap();
    assert_eq!(answer["friendlyThreadName"], "server");
    assert_eq!(answer["weightType"], "tracing-ms");
    let functions = answer["functions"].as_array().unwrap();
    let shares: BTreeMap<&str, (i64, i64)> = functions
        .iter()
        .map(|function| {
            let share = |key: &str| function[key].as_f64().unwrap() as i64;
            (
                function["nameWithLibrary"].as_str().unwrap(),
                (share("selfPercentage"), share("totalPercentage")),
            )
        })
        .collect();
    let expected = [
        ("server!leaf", (75, 75)),
        ("server!main", (0, 100)),
        ("server!rest", (25, 25)),
        ("server!work", (0, 75)),
    ];
    assert_eq!(shares, BTreeMap::from(expected));
    assert!(processes.contains("[pid 10]") && processes.contains("[tid 11]"), "{processes}");
}
