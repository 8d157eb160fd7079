//! Every engine, and what happens when the one of choice is not available.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "installs a seccomp filter")]

mod support;

use flamelet_capture::cpu::{self, Engine, Options};
use flamelet_profile::Profile;
use std::time::Duration;
use support::{Names, burn_red, percent, process_cpu, sampled, turn};

fn profile_with(engine: Engine, frequency: u32) -> (Profile, Duration) {
    let mut options = Options::with_frequency(frequency);
    options.engine = engine;
    options.overhead_budget = None;
    let session = cpu::start(&options).expect("starts");
    let start = process_cpu();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| burn_red(Duration::from_millis(600)));
        }
    });
    let used = process_cpu() - start;
    (session.finish(), used)
}

fn engine_of(profile: &Profile) -> String {
    profile.string(profile.quality.expect("said").engine).to_string()
}

#[test]
fn timers_and_setitimer_deliver_at_both_rates() {
    let _turn = turn();
    let names = Names::new();
    for engine in [Engine::Timer, Engine::Setitimer] {
        for frequency in [99, 999] {
            let (profile, used) = profile_with(engine, frequency);
            assert_eq!(engine_of(&profile), engine.name());
            let share = percent(sampled(&profile), used);
            println!("{} at {frequency} Hz: {share:.1} %", engine.name());
            let slack = 250.0 / f64::from(frequency) / used.as_secs_f64();
            assert!(share > 96.5 - slack && share < 103.5 + slack, "{engine:?} {frequency} Hz: {share:.1} %");
            let hot = percent(names.inclusive(&profile, "burn_red"), used);
            assert!(hot > 90.0 - slack, "{engine:?} {frequency} Hz: {hot:.1} %");
        }
    }
}

#[test]
fn perf_events_deliver_where_the_kernel_allows_them() {
    let _turn = turn();
    let (profile, used) = profile_with(Engine::Perf, 499);
    if engine_of(&profile) != "perf" {
        eprintln!("SKIP: perf_event_open is not allowed here: {:?}", profile.comments().collect::<Vec<_>>());
        return;
    }
    let share = percent(sampled(&profile), used);
    println!("perf at 499 Hz: {share:.1} %");
    // New threads are found at the next look, 20 ms later, and an event does not count what was before.
    assert!((85.0..105.0).contains(&share), "{share:.1} %");
}

/// Makes `perf_event_open` fail for this thread and those it starts.
fn deny_perf_events() {
    const RETURN_EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
    const ALLOW: u32 = 0x7fff_0000;
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let rule = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut rules = [
        rule(LOAD_NUMBER, 0, 0, 0),
        rule(JUMP_IF_EQUAL, 0, 1, libc::SYS_perf_event_open as u32),
        rule(RETURN, 0, 0, RETURN_EPERM),
        rule(RETURN, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the program outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let result = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn under_seccomp_the_choice_of_perf_falls_back_and_says_so() {
    let _turn = turn();
    let thread = std::thread::spawn(|| {
        deny_perf_events();
        profile_with(Engine::Perf, 199)
    });
    let (profile, used) = thread.join().expect("no panic");
    assert_eq!(engine_of(&profile), "timer");
    assert!(percent(sampled(&profile), used) > 90.0);
    let said = profile.comments().any(|comment| comment.contains("engine perf is not available"));
    assert!(said, "{:?}", profile.comments().collect::<Vec<_>>());
}

#[test]
fn an_overhead_budget_that_cannot_be_kept_lowers_the_rate_and_says_so() {
    let _turn = turn();
    let mut options = Options::with_frequency(5000);
    options.overhead_budget = Some(0.001);
    let session = cpu::start(&options).expect("starts");
    let start = std::time::Instant::now();
    while cpu::status().frequency == 5000 && start.elapsed() < Duration::from_secs(20) {
        burn_red(Duration::from_millis(100));
    }
    assert!(cpu::status().frequency < 5000);
    let profile = session.finish();
    let said = profile.comments().any(|comment| comment.contains("frequency was lowered"));
    assert!(said, "{:?}", profile.comments().collect::<Vec<_>>());
}
