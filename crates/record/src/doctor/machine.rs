//! Checks of the machine, the container and the user.

use std::path::Path;

use super::{CheckResult, Report};
use flamelet_unwind::perf_event::{EventAttr, config, event_kind, flag};

use crate::access::tracefs;
use crate::access::{self, Capabilities};
use crate::sys::event::{PerfEvent, Watch};
use crate::sys::machine as system;
use crate::sys::machine::online_cpus;

/// Checks what this user may record on this machine.
pub fn machine() -> Report {
    let mut report = Report::default();
    let capabilities = Capabilities::own();
    perf_events(&mut report);
    paranoid(&mut report, capabilities);
    everything(&mut report);
    counters(&mut report);
    kernel_names(&mut report, capabilities);
    tracepoints(&mut report, capabilities);
    rings(&mut report, capabilities);
    live_stacks(&mut report, capabilities);
    container(&mut report);
    report
}

fn perf_events(report: &mut Report) {
    let filter = if access::is_filtered() { ", a seccomp filter is in force" } else { "" };
    match access::try_own_clock(false) {
        Ok(()) => {
            let found = format!("perf_event_open works{filter}");
            report.add("perf_event_open", found, CheckResult::Good, "CPU samples of your processes", "");
        }
        Err(error) => {
            let why = access::explain(&error, "perf_event_open", access::level::USER_SIDE);
            let remedy = if access::is_filtered() {
                access::UNFILTER
            } else {
                "sudo sysctl kernel.perf_event_paranoid=2"
            };
            let allows = "other processes cannot be recorded; the library inside a service still works";
            report.add("perf_event_open", why.to_string(), CheckResult::Missing, allows, remedy);
        }
    }
}

fn paranoid(report: &mut Report, capabilities: Capabilities) {
    let level = access::paranoid();
    let setting =
        level.map_or("not available".to_owned(), |level| format!("kernel.perf_event_paranoid={level}"));
    let found = match (system::effective_user(), capabilities.may_watch_everything()) {
        (0, true) => format!("{setting}, and this is root"),
        (_, true) => format!("{setting}, and CAP_PERFMON overrides it"),
        _ => setting,
    };
    if access::try_own_clock(true).is_ok() {
        report.add(
            "kernel side",
            found,
            CheckResult::Good,
            "kernel frames, off-CPU time and system calls",
            "",
        );
    } else {
        let allows = "the user side only: time inside the kernel is not seen, and there is no off-CPU time";
        report.add(
            "kernel side",
            found,
            CheckResult::Limited,
            allows,
            "sudo sysctl kernel.perf_event_paranoid=1",
        );
    }
}

fn try_event(kind: u32, config: u64, watch: Watch, more: u64) -> bool {
    let attr = EventAttr::new(kind, config).with(flag::DISABLED | flag::EXCLUDE_HV | more);
    let cpu = online_cpus().first().copied().unwrap_or(0);
    PerfEvent::open(&attr, watch, cpu).is_ok()
}

fn everything(report: &mut Report) {
    if try_event(event_kind::SOFTWARE, config::CPU_CLOCK, Watch::Everything, flag::EXCLUDE_KERNEL) {
        report.add("all processes", "permitted", CheckResult::Good, "`flamelet record -a`", "");
    } else {
        let allows = "your processes only, not `flamelet record -a`";
        let remedy = "sudo sysctl kernel.perf_event_paranoid=0";
        report.add("all processes", "not permitted", CheckResult::Limited, allows, remedy);
    }
}

fn counters(report: &mut Report) {
    if try_event(event_kind::HARDWARE, config::CPU_CYCLES, Watch::Thread(0), flag::EXCLUDE_KERNEL) {
        report.add(
            "hardware counters",
            "cycles can be counted",
            CheckResult::Good,
            "cycles, cache misses, branches",
            "",
        );
    } else {
        let allows = "samples by the kernel's timer instead, just as good for CPU time";
        report.add("hardware counters", "none (usual in a VM)", CheckResult::Limited, allows, "");
    }
}

fn kernel_names(report: &mut Report, capabilities: Capabilities) {
    let level = access::setting("kernel/kptr_restrict").unwrap_or(0);
    let found = format!("kernel.kptr_restrict={level}");
    let are_shown = flamelet_symbol::kernel::KernelSymbols::load().is_some();
    if are_shown {
        report.add("kernel names", found, CheckResult::Good, "kernel frames have names", "");
    } else {
        let remedy =
            names_remedy(level, access::paranoid().unwrap_or(2), capabilities.has(Capabilities::SYSLOG));
        report.add("kernel names", found, CheckResult::Limited, "kernel frames are addresses only", &remedy);
    }
}

/// Returns the command that changes the settings which hide the kernel's addresses.
fn names_remedy(restrict: i32, paranoid: i32, may_read_log: bool) -> String {
    let needed = [
        (restrict > 0 && (restrict > 1 || !may_read_log), "kernel.kptr_restrict=0"),
        (paranoid > 1 && !may_read_log, "kernel.perf_event_paranoid=1"),
    ];
    let needed: Vec<&str> = needed.into_iter().filter(|(is, _)| *is).map(|(_, setting)| setting).collect();
    if needed.is_empty() { String::new() } else { format!("sudo sysctl {}", needed.join(" ")) }
}

const WITHOUT_TRACEPOINTS: &str = "system calls by ptrace, which is slower; no other `-e GROUP:NAME`";

fn tracepoints(report: &mut Report, capabilities: Capabilities) {
    match tracefs::mounted() {
        Some(folder) if capabilities.may_watch_everything() || access::paranoid().is_some_and(|p| p < 0) => {
            let found = format!("{} can be read", folder.display());
            report.add("tracepoints", found, CheckResult::Good, "system calls, `-e GROUP:NAME`", "");
        }
        Some(folder) => {
            let found = format!("{} can be read but not used by this user", folder.display());
            let remedy = "sudo sysctl kernel.perf_event_paranoid=-1";
            report.add("tracepoints", found, CheckResult::Limited, WITHOUT_TRACEPOINTS, remedy);
        }
        None if capabilities.has(Capabilities::SYS_ADMIN) => {
            let found = "not mounted; a recording that needs it mounts it";
            report.add("tracepoints", found, CheckResult::Good, "system calls, `-e GROUP:NAME`", "");
        }
        None => {
            let remedy = "sudo mount -o remount,mode=755 /sys/kernel/tracing";
            report.add(
                "tracepoints",
                "tracefs cannot be read",
                CheckResult::Limited,
                WITHOUT_TRACEPOINTS,
                remedy,
            );
        }
    }
}

fn rings(report: &mut Report, capabilities: Capabilities) {
    const COMFORTABLE: u64 = 2 << 20;
    let each = access::setting("kernel/perf_event_mlock_kb").map_or(0, |kib| kib.max(0) as u64 * 1024);
    let locked = system::lockable_bytes();
    if capabilities.has(Capabilities::IPC_LOCK) || access::paranoid().is_some_and(|level| level < 0) {
        report.add("ring memory", "not limited", CheckResult::Good, "rings of 8 MiB per CPU", "");
        return;
    }
    let cpus = online_cpus().len().max(1) as u64;
    let share = locked.unwrap_or(0) / cpus;
    let found = format!(
        "kernel.perf_event_mlock_kb={}, `ulimit -l` {}",
        each >> 10,
        locked.map_or("unknown".to_owned(), |bytes| (bytes >> 10).to_string())
    );
    if each.saturating_add(share) >= COMFORTABLE {
        report.add("ring memory", found, CheckResult::Good, "rings of 2 MiB per CPU or more", "");
    } else {
        let allows = "small rings: samples may be lost at high frequencies";
        report.add(
            "ring memory",
            found,
            CheckResult::Limited,
            allows,
            "sudo sysctl kernel.perf_event_mlock_kb=8192",
        );
    }
}

fn live_stacks(report: &mut Report, capabilities: Capabilities) {
    let scope = access::setting("kernel/yama/ptrace_scope").unwrap_or(0);
    let found = format!("kernel.yama.ptrace_scope={scope}");
    if scope == 0 || capabilities.has(Capabilities::SYS_PTRACE) {
        report.add("live stacks", found, CheckResult::Good, "stacks larger than 64 KB are complete", "");
    } else {
        let allows = "large stacks are complete only for commands that flamelet starts";
        report.add(
            "live stacks",
            found,
            CheckResult::Limited,
            allows,
            "sudo sysctl kernel.yama.ptrace_scope=0",
        );
    }
}

fn container(report: &mut Report) {
    let marks = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    let by_file = marks.iter().find(|(mark, _)| Path::new(mark).exists()).map(|(_, name)| *name);
    let by_variable = std::env::var_os("KUBERNETES_SERVICE_HOST").map(|_| "Kubernetes");
    match by_variable.or(by_file) {
        Some(name) => {
            let allows = "processes of this container only; the host's settings apply too";
            report.add(
                "container",
                name,
                CheckResult::Limited,
                allows,
                "run with --pid=host to see the host's processes",
            );
        }
        None => {
            report.add("container", "none found", CheckResult::Good, "processes of the whole machine", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names_remedy;

    #[test]
    fn what_is_set_already_is_not_advised() {
        assert_eq!(names_remedy(0, 2, false), "sudo sysctl kernel.perf_event_paranoid=1");
        assert_eq!(names_remedy(1, 1, false), "sudo sysctl kernel.kptr_restrict=0");
        let both = "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1";
        assert_eq!(
            (names_remedy(1, 2, false), names_remedy(2, 2, true)),
            (both.into(), both.replace(" kernel.perf_event_paranoid=1", ""))
        );
        assert_eq!(names_remedy(0, 1, false), "");
    }
}
