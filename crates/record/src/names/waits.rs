//! What a thread waits for, derived from the kernel functions or the system call that it waits in.

/// Returns what a thread waits for, given the kernel functions it waits in (leaf first).
pub(crate) fn wait_kind<'a>(functions: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let mut found = None;
    for function in functions {
        if let Some(kind) = wait_of(function) {
            // The outermost function shows best what the thread does: a read that waits for a page is a read.
            found = Some(kind);
        }
    }
    found
}

fn wait_of(function: &str) -> Option<&'static str> {
    const PREFIXES: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__do_sys_"];
    match function {
        "exc_page_fault" | "asm_exc_page_fault" | "do_user_addr_fault" | "do_page_fault" | "el0_da"
        | "el0_ia" => {
            return Some("page fault");
        }
        "irqentry_exit_to_user_mode" | "exit_to_user_mode_loop" | "asm_sysvec_apic_timer_interrupt" => {
            return Some("preempted");
        }
        "do_exit" | "do_group_exit" => return Some("exit"),
        _ => {}
    }
    let call = PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix))?;
    Some(wait_of_call(call))
}

/// Returns what kind of wait a system call is.
pub(crate) fn wait_of_call(call: &str) -> &'static str {
    match call {
        call if call.starts_with("futex") => "futex",
        "nanosleep" | "clock_nanosleep" => "sleep",
        call if call.contains("poll") || call.contains("select") => "poll",
        "wait4" | "waitid" => "child",
        "fsync" | "fdatasync" | "sync" | "syncfs" | "msync" | "sync_file_range" => "disk",
        call if call.contains("recv")
            || call.contains("send")
            || call.contains("accept")
            || call == "connect" =>
        {
            "network"
        }
        call if call.contains("read") || call.contains("write") || call.contains("splice") => "io",
        call if call.starts_with("open") || call.contains("stat") || call.starts_with("getdents") => "io",
        call if call.starts_with("io_") => "io",
        "pause" | "rt_sigsuspend" | "rt_sigtimedwait" | "signalfd" => "signal",
        "sched_yield" => "yield",
        "exit" | "exit_group" => "exit",
        call if call.starts_with("sem") || call.starts_with("msg") || call.starts_with("mq_") => "ipc",
        "mmap" | "munmap" | "mprotect" | "madvise" | "brk" | "mremap" => "memory",
        _ => "system call",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_call_names_the_wait() {
        let kind = |functions: &[&'static str]| wait_kind(functions.iter().copied());
        assert_eq!(
            kind(&["__schedule", "futex_wait", "do_futex", "__x64_sys_futex", "do_syscall_64"]),
            Some("futex")
        );
        assert_eq!(kind(&["schedule", "folio_wait_bit", "exc_page_fault"]), Some("page fault"));
        assert_eq!(kind(&["schedule", "exc_page_fault", "copy_to_iter", "__x64_sys_read"]), Some("io"));
        assert_eq!(kind(&["schedule", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep"]), Some("sleep"));
        assert_eq!(kind(&["schedule"]), None);
    }
}
