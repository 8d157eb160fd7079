//! The same run seen from outside: what `flamelet record --off-cpu` says about each function.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

use flamelet::Profile;
use flamelet_record::{RecordOptions, Target, doctor, record};

use crate::contention::{Truth, contend, find, profiler};

/// Set for the program that is recorded: this one, with the test below only.
const RECORDED: &str = "FLAMELET_TEST_RECORDED";

/// The function that waits in each part of the run, and the part.
type Part = (&'static str, fn() -> Truth);

const PARTS: [Part; 4] = [
    ("off_cpu::waits_for_mutex", run_mutex),
    ("off_cpu::waits_for_other_mutex", run_other_mutex),
    ("off_cpu::waits_for_condition", run_condition),
    ("off_cpu::waits_for_message", run_channel),
];

#[inline(never)]
fn waits_for_mutex(lock: &Mutex<u32>) {
    *lock.lock().expect("no panic") += 1;
    std::hint::black_box(());
}

fn run_mutex() -> Truth {
    let lock = Mutex::new(0);
    let hold = |meanwhile: &dyn Fn()| {
        let held = lock.lock().expect("no panic");
        meanwhile();
        drop(held);
    };
    contend(hold, || waits_for_mutex(&lock))
}

#[inline(never)]
fn waits_for_other_mutex(lock: &parking_lot::Mutex<u32>) {
    *lock.lock() += 1;
    std::hint::black_box(());
}

fn run_other_mutex() -> Truth {
    let lock = parking_lot::Mutex::new(0);
    let hold = |meanwhile: &dyn Fn()| {
        let held = lock.lock();
        meanwhile();
        drop(held);
    };
    contend(hold, || waits_for_other_mutex(&lock))
}

#[inline(never)]
fn waits_for_condition(signal: &(Mutex<bool>, Condvar)) {
    let set = signal.1.wait_while(signal.0.lock().expect("no panic"), |is_set| !*is_set);
    *set.expect("no panic") = false;
    std::hint::black_box(());
}

fn run_condition() -> Truth {
    let signal = (Mutex::new(false), Condvar::new());
    let hold = |meanwhile: &dyn Fn()| {
        meanwhile();
        *signal.0.lock().expect("no panic") = true;
        signal.1.notify_one();
    };
    contend(hold, || waits_for_condition(&signal))
}

#[inline(never)]
fn waits_for_message(receiver: &Mutex<mpsc::Receiver<u32>>) {
    receiver.lock().expect("no panic").recv().expect("it is sent");
    std::hint::black_box(());
}

fn run_channel() -> Truth {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let hold = |meanwhile: &dyn Fn()| {
        meanwhile();
        sender.send(1).expect("it is received");
    };
    contend(hold, || waits_for_message(&receiver))
}

/// What the program says about one of its functions, in nanoseconds.
struct Told {
    at_least: u64,
    measured: u64,
    block: u64,
}

/// The recorded program: writes a line for each part.
fn run_and_tell(out: &std::ffi::OsStr) {
    let profiler = profiler();
    let truths = PARTS.map(|(_, run)| run());
    let block = profiler.block().expect("installed");
    let line = |((function, _), truth): (Part, Truth)| {
        let times = [truth.at_least, truth.waited, find(&block, function).delay];
        times.map(|time| time.as_nanos().to_string()).join(" ")
    };
    let lines: Vec<String> = PARTS.into_iter().zip(truths).map(line).collect();
    std::fs::write(out, lines.join("\n")).expect("our own folder");
}

fn read_told(text: &str) -> Vec<Told> {
    let number = |word: &str| word.parse().expect("a number");
    let of_line = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(number).collect();
        let [at_least, measured, block] = numbers[..] else { panic!("{line}") };
        Told { at_least, measured, block }
    };
    text.lines().map(of_line).collect()
}

/// Returns the time that threads were off the CPU in a function, as the recorder saw it.
fn off_cpu(profile: &Profile, function: &str) -> Duration {
    let mut kinds = profile.sample_types().iter().map(|value| profile.string(value.kind));
    let column = kinds.position(|kind| kind == "off_cpu").expect("off-CPU time");
    let is_there = |sample: &flamelet_capture::profile::Sample<'_>| {
        let mut lines = profile.stack(sample.stack).iter().flat_map(|&location| profile.lines(location));
        let is_it = |name: &str| name.contains(function);
        lines.any(|line| line.function.is_some_and(|id| is_it(profile.string(profile.function(id).name))))
    };
    let nanos: i64 = profile.samples().filter(is_there).map(|sample| sample.values[column]).sum();
    Duration::from_nanos(nanos as u64)
}

#[test]
fn a_recording_from_outside_says_the_same() {
    if let Some(out) = std::env::var_os(RECORDED) {
        return run_and_tell(&out);
    }
    let report = doctor::machine();
    let is_good = |name| report.check(name).is_some_and(|check| check.state == doctor::CheckResult::Good);
    if !is_good("kernel side") || !is_good("tracepoints") {
        flamelet_test_support::skip!("off-CPU time: this user may not watch the kernel's side\n{report}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("told");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "off_cpu::a_recording_from_outside_says_the_same"]).env(RECORDED, &out);
    let mut options = RecordOptions::new(Target::Command(command));
    options.off_cpu = true;
    let recorded = record(options, &mut |_| {}, &AtomicBool::new(false)).expect("permitted here");
    let told = read_told(&std::fs::read_to_string(&out).expect("it has run"));
    assert_eq!(told.len(), PARTS.len());
    for ((function, _), Told { at_least, measured, block }) in PARTS.into_iter().zip(told) {
        let outside = off_cpu(&recorded.profile, function).as_nanos() as u64;
        // Both lie between what the wait must be at least and what the program has measured around it, whatever else runs on
        // the machine. A thread is on the CPU for a moment when it begins to wait.
        let bounds = at_least / 100 * 99..=measured;
        let all = format!("{function}: {block} inside, {outside} outside, {bounds:?} in truth");
        assert!(bounds.contains(&block) && bounds.contains(&outside), "{all}: {:?}", recorded.summary);
    }
}
