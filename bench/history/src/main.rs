//! A day of ten-second windows in a history, and as pprof files.
//!
//! - `bench-history prepare RECORDED SPOOL WINDOWS` takes windows out of a history that a service has written, and prints how many
//!   there are and their stacks.
//! - `bench-history FOLDER WINDOWS [SPOOL]` writes this many windows into a history and as pprof files, merges them, and prints
//!   what it took: a line for each, `history` and `files`, with bytes, microseconds of CPU to write, microseconds to merge
//!   everything, and to merge one minute, and bytes of memory that writing took. The prepared windows are repeated if there are
//!   fewer; without any, the windows are those of a made-up service, the same on every machine.
//!
//! The history has names, which are added to what is merged; the pprof files have none.

mod source;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench_windows::SECOND;
use flamelet_profile::{Budget, Limits, Profile, merge, pprof};
use flamelet_store::{Options, Query, Reader, Writer};
use rustix::time::{ClockId, clock_gettime};
use source::Windows;

const START: i64 = 1_794_700_800 * SECOND;
const WINDOW: i64 = 10 * SECOND;
/// Names are looked up once an hour and at the end, as a service does.
const NAMES_EVERY: u64 = 360;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().expect("a number of windows");
    match arguments[..] {
        ["prepare", recorded, spool, windows] => {
            let (windows, stacks) = source::prepare(Path::new(recorded), Path::new(spool), number(windows));
            println!("{windows} {stacks}");
        }
        [folder, windows] => measure(Path::new(folder), number(windows), &Windows::MadeUp),
        [folder, windows, spool] => {
            measure(Path::new(folder), number(windows), &Windows::prepared(PathBuf::from(spool)));
        }
        _ => {
            eprintln!("usage: bench-history prepare RECORDED SPOOL WINDOWS | FOLDER WINDOWS [SPOOL]");
            std::process::exit(2);
        }
    }
}

fn measure(folder: &Path, windows: u64, source: &Windows) {
    println!("history {}", history(&folder.join("history"), windows, source));
    println!("files {}", files(&folder.join("files"), windows, source));
}

fn history(folder: &Path, windows: u64, source: &Windows) -> String {
    let memory = Memory::start();
    let mut options = Options::default();
    // The windows have a date of their own, which must not be too old.
    options.age = Duration::from_secs(u64::from(u32::MAX));
    let mut writer = Writer::open(folder, options).expect("a writer");
    let (mut cpu, mut expected) = (Duration::ZERO, 0);
    for number in 0..windows {
        let window = source.window(number);
        expected += window.total(0);
        let before = cpu_time();
        writer.append("cpu", &window).expect("written");
        cpu += cpu_time() - before;
        while ((number + 1).is_multiple_of(NAMES_EVERY) || number + 1 == windows)
            && let Some(mut unnamed) = writer.take_unnamed()
        {
            source.add_names(&mut unnamed);
            let before = cpu_time();
            writer.keep_names(&unnamed).expect("written");
            cpu += cpu_time() - before;
        }
    }
    drop(writer);
    let memory = memory.most();
    let reader = Reader::open(folder).expect("a reader");
    let read = |from: i64, to: i64| {
        let (start, budget) = (Instant::now(), Budget::new(Limits::PERSON));
        let profile = reader.profile(&Query::new("cpu", from, to), &budget).expect("read").0;
        let mut profile = profile.expect("there");
        reader.add_names(&mut profile, &budget).expect("read");
        (start.elapsed(), profile.total(0))
    };
    let end = START + windows as i64 * WINDOW;
    let (all, total) = read(START, end);
    assert_eq!(total, expected, "all of them");
    let middle = START + windows as i64 / 2 * WINDOW;
    let (minute, _) = read(middle, middle + 60 * SECOND);
    line(folder, cpu, all, minute, memory)
}

fn files(folder: &Path, windows: u64, source: &Windows) -> String {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = |number: u64| folder.join(format!("{number}.pb.gz"));
    let (memory, mut cpu) = (Memory::start(), Duration::ZERO);
    for number in 0..windows {
        let window = source.window(number);
        let before = cpu_time();
        pprof::write_gzip(&window, std::fs::File::create(path(number)).expect("a file")).expect("written");
        cpu += cpu_time() - before;
    }
    let memory = memory.most();
    let read = |numbers: std::ops::Range<u64>| {
        let start = Instant::now();
        let profiles: Vec<Profile> = numbers
            .map(|number| {
                pprof::read(&std::fs::read(path(number)).expect("read"), &Limits::NONE).expect("read")
            })
            .collect();
        merge(&profiles.iter().collect::<Vec<_>>()).expect("merged");
        start.elapsed()
    };
    let (all, minute) = (read(0..windows), read(windows / 2..windows / 2 + 6));
    line(folder, cpu, all, minute, memory)
}

fn line(folder: &Path, cpu: Duration, all: Duration, minute: Duration, memory: u64) -> String {
    let entries = std::fs::read_dir(folder).expect("listed");
    let bytes: u64 = entries.map(|entry| entry.expect("listed").metadata().expect("there").len()).sum();
    format!("{bytes} {} {} {} {memory}", cpu.as_micros(), all.as_micros(), minute.as_micros())
}

/// The memory of this process, from a start on.
struct Memory(u64);

impl Memory {
    fn start() -> Self {
        // The kernel then counts the peak from here on.
        std::fs::write("/proc/self/clear_refs", "5").expect("a Linux that can reset the peak");
        Self(status("VmRSS:"))
    }

    /// Returns how far the peak is above the start, in bytes.
    fn most(&self) -> u64 {
        status("VmHWM:").saturating_sub(self.0)
    }
}

/// Returns a field of this process' status, in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
