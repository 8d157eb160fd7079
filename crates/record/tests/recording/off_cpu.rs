//! Where threads wait.

use crate::programs::{alone, rust, telling};
use crate::seen::{column, frames, has, label, may_see_kernel, number, recorded};

#[test]
fn blocked_time_is_found_by_stack_with_its_cause_and_wall_time_adds_up() {
    if !may_see_kernel("off-CPU time") {
        return;
    }
    let _one = alone();
    let (command, out) = telling(&rust("waits", &[]), &[], "waits");
    let recorded = recorded(command, |options| options.off_cpu = true);
    let told = std::fs::read_to_string(out).expect("its output");
    let told: Vec<i64> = told.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [slept, waited, worked, lived] = told[..] else { panic!("{told:?}") };
    let profile = &recorded.profile;
    let [cpu, off_cpu, wall] = ["cpu", "off_cpu", "wall"].map(|kind| column(profile, kind));
    let off = |function: &str, wait: &str| -> i64 {
        let there = profile.samples().filter(|sample| has(&frames(profile, sample), function));
        there.filter(|sample| label(profile, sample, "wait") == Some(wait)).map(|s| s.values[off_cpu]).sum()
    };
    let (sleeping, locked) = (off("sleepy", "sleep"), off("contended", "futex"));
    // The time that the kernel saw is within the time that the program measured around it.
    assert!((190_000_000..=slept).contains(&sleeping), "{sleeping} of {slept}: {:?}", recorded.summary);
    assert!(locked > waited / 2 && locked <= waited, "{locked} of {waited}: {:?}", recorded.summary);
    let main = |sample: &flamelet_profile::Sample<'_>| {
        number(profile, sample, "pid") == number(profile, sample, "tid")
    };
    let total: i64 = profile.samples().filter(main).map(|sample| sample.values[wall]).sum();
    // Blocked time has timestamps. Work is counted in samples, and samples that the host takes away are not known.
    let (least, most) = ((lived - worked) / 10 * 9, lived / 10 * 11 + 50_000_000);
    assert!((least..=most).contains(&total), "{total} of {lived}: {:?}", recorded.summary);
    let worked = profile.samples().filter(|sample| has(&frames(profile, sample), "busy"));
    assert!(worked.map(|sample| sample.values[wall]).sum::<i64>() > 0, "{:?}", recorded.summary);
    assert_eq!(profile.total(wall), profile.total(cpu) + profile.total(off_cpu));
    let timeline = profile.timeline.as_ref().expect("time is kept");
    assert_eq!(timeline.value_type, wall);
    let moments: i64 = timeline.events.iter().map(|event| event.value).sum();
    assert_eq!(moments, profile.total(wall));
}

#[test]
fn threads_that_wait_all_the_time_are_seen_too() {
    if !may_see_kernel("off-CPU time of a process that waits") {
        return;
    }
    let _one = alone();
    let mut child = crate::programs::quiet("sleep".as_ref(), &["600"]).spawn().expect("coreutils");
    // It must already be asleep, otherwise its switch is recorded and nothing has to be looked up.
    let waits = || std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap_or_default();
    let sleeping = format!("{} ", libc::SYS_clock_nanosleep);
    while !waits().starts_with(&sleeping) {
        std::thread::yield_now();
    }
    let mut options = flamelet_record::RecordOptions::new(flamelet_record::Target::Pids(vec![child.id()]));
    options.off_cpu = true;
    options.duration = Some(std::time::Duration::from_millis(200));
    let recorded = flamelet_record::record(options, &mut |_| {}, &std::sync::atomic::AtomicBool::new(false));
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let recorded = recorded.expect("permitted here");
    let profile = &recorded.profile;
    let off_cpu = column(profile, "off_cpu");
    let asleep = profile.samples().filter(|sample| label(profile, sample, "wait") == Some("sleep"));
    let asleep: i64 = asleep.map(|sample| sample.values[off_cpu]).sum();
    assert!(asleep >= 200_000_000, "{asleep}: {:?}", recorded.summary);
}

#[test]
fn a_blocked_stack_larger_than_its_dump_is_completed_while_it_stands() {
    if !may_see_kernel("off-CPU time of huge frames") {
        return;
    }
    let _one = alone();
    let recorded =
        recorded(crate::programs::quiet(&rust("huge_wait", &[]), &[]), |options| options.off_cpu = true);
    let (profile, summary) = (&recorded.profile, &recorded.summary);
    let off_cpu = column(profile, "off_cpu");
    let under = |functions: &[&str]| -> i64 {
        let is_under = |frames: &[&str]| functions.iter().all(|function| has(frames, function));
        profile.samples().filter(|s| is_under(&frames(profile, s))).map(|s| s.values[off_cpu]).sum()
    };
    let (all, whole) = (under(&["waiter"]), under(&["waiter", "beyond_the_dump", "main"]));
    assert!(all >= 1_990_000_000, "{all}: {summary:?}");
    assert!(whole >= all / 100 * 99, "{whole} of {all}: {summary:?}");
}
