//! What an ordinary user may do, and the messages for what is not allowed.

use crate::helper::{as_nobody, command, told};
use crate::programs::{alone, rust};
use std::os::unix::process::CommandExt;

fn paranoid() -> i32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().parse().unwrap_or(2)
}

/// How much memory an ordinary user may lock; a huge number if there is no limit.
fn lockable_bytes() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.map_or(0, |word| word.parse().unwrap_or(u64::MAX))
}

#[test]
fn nobody_records_the_user_side_of_a_command() {
    let _one = alone();
    if paranoid() > 2 {
        flamelet_test_support::skip!(
            "an ordinary user may record nothing at kernel.perf_event_paranoid={}",
            paranoid()
        );
        return;
    }
    let mut helper = command("cpu", &rust("deep", &[]));
    as_nobody(&mut helper);
    let told = told(helper);
    // The rings that this user may lock hold a quarter of a second, or less if the limit requires it.
    if lockable_bytes() >= 4 << 20 {
        assert!(told.contains(" samples, 0 lost"), "{told}");
    }
    let rooted: f64 =
        told.split("rooted ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok()).expect("a number");
    assert!(rooted >= 0.99, "{told}");
    if paranoid() == 2 {
        assert!(told.contains("kernel false") && told.contains("perf_event_paranoid=2"), "{told}");
    }
}

#[test]
fn nobody_is_told_why_more_is_refused_and_what_would_allow_it() {
    let _one = alone();
    if paranoid() < 2 {
        flamelet_test_support::skip!("kernel.perf_event_paranoid={} refuses nothing of this", paranoid());
        return;
    }
    // System calls beside CPU samples; alone they are traced, see `tracing`.
    for what in ["off-cpu", "syscalls", "everything"] {
        let mut helper = command(what, &rust("deep", &[]));
        as_nobody(&mut helper);
        let told = told(helper);
        assert!(told.contains("Denied"), "{what}: {told}");
        assert!(told.contains("sudo "), "{what}: {told}");
        // No more than that: a lower setting for --off-cpu would apply to every user.
        let level = match what {
            "off-cpu" => "paranoid=1`",
            "everything" => "paranoid=0`",
            _ => "",
        };
        assert!(told.contains(level), "{what}: {told}");
    }
}

/// No kernel setting allows that, so none is recommended.
#[test]
fn nobody_is_told_that_a_process_is_somebody_elses() {
    let _one = alone();
    let mut ours = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
    let mut helper = command("process", ours.id().to_string().as_ref());
    let is_root = as_nobody(&mut helper);
    let told = is_root.then(|| told(helper));
    ours.kill().expect("our own child");
    ours.wait().expect("our own child");
    let Some(told) = told else {
        flamelet_test_support::skip!("only root has processes that this user may not watch");
        return;
    };
    assert!(told.contains("Denied") && told.contains("belongs to another user"), "{told}");
    assert!(!told.contains("sysctl"), "{told}");
}

/// Lets `perf_event_open` fail as containers do.
fn forbid_perf_event_open() -> std::io::Result<()> {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const FAIL: u32 = 0x0005_0000;
    let filter = [
        libc::sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: libc::SYS_perf_event_open as u32 },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: FAIL | libc::EPERM as u32 },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: both calls only read what they are given, which lives until they return.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn a_filter_that_forbids_perf_event_open_is_named() {
    let _one = alone();
    let mut helper = command("cpu", &rust("deep", &[]));
    // SAFETY: the closure only makes system calls, as is allowed between fork and exec.
    unsafe { helper.pre_exec(forbid_perf_event_open) };
    let told = told(helper);
    assert!(told.contains("Denied") && told.contains("seccomp"), "{told}");
    assert!(told.contains("--cap-add PERFMON"), "{told}");
}

#[test]
fn the_doctor_looks_at_everything_and_agrees_with_what_works() {
    let _one = alone();
    let report = flamelet_record::doctor::machine();
    let names: Vec<&str> = report.checks.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    assert!(report.is_usable(), "{report}");
    for check in &report.checks {
        assert!(!check.found.is_empty() && !check.allows.is_empty(), "{check:?}");
    }
    let binary = flamelet_record::doctor::binary(&rust("deep", &["-C", "strip=symbols"])).expect("a program");
    let debug = binary.check("debug info").expect("looked at");
    assert_eq!(debug.state, flamelet_record::doctor::CheckResult::Missing, "{binary}");
    assert!(debug.remedy.is_some());
    assert!(flamelet_record::doctor::binary("/no/such/file".as_ref()).is_err());
}
