//! The kernel's own functions, where it shows their addresses.

use std::io::Read;

/// What profiles call the kernel's mapping.
pub(crate) const MAPPING: &str = "[kernel.kallsyms]";

/// All functions of the kernel, by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// Address, and where the name begins and ends in `list`.
    functions: Vec<(u64, u32, u32)>,
    list: Vec<u8>,
}

impl KernelSymbols {
    /// Reads them all; `None` when the kernel hides them.
    pub(crate) fn load() -> Option<Self> {
        Self::read(std::fs::File::open("/proc/kallsyms").ok()?)
    }

    fn read(mut file: impl Read) -> Option<Self> {
        /// There are more than a hundred thousand lines of some forty bytes.
        const USUAL: usize = 8 << 20;
        let mut list = Vec::with_capacity(USUAL);
        file.read_to_end(&mut list).ok()?;
        let mut functions = Vec::with_capacity(list.len() / 40);
        let mut start = 0;
        for line in list.split_inclusive(|&byte| byte == b'\n') {
            functions.extend(function(line, start));
            start += line.len();
        }
        functions.sort_by_key(|function| function.0);
        // A kernel that hides its addresses shows all of them as zero.
        functions.last().is_some_and(|last| last.0 != 0).then_some(Self { functions, list })
    }

    /// The function at `address`.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        let at = self.functions.partition_point(|function| function.0 <= address).checked_sub(1)?;
        let (_, start, end) = self.functions[at];
        std::str::from_utf8(self.list.get(start as usize..end as usize)?).ok()
    }
}

/// The address of the function on `line`, which begins at `start`, and where its name begins and ends: lines are
/// `ADDRESS KIND name`, with a tab and `[module]` behind it for a module's.
fn function(line: &[u8], start: usize) -> Option<(u64, u32, u32)> {
    const DIGITS: usize = 16;
    let (digits, rest) = line.split_at_checked(DIGITS)?;
    let [b' ', b't' | b'T' | b'w' | b'W', b' ', name @ ..] = rest else { return None };
    let mut address = 0;
    for &digit in digits {
        address = address << 4 | u64::from((digit as char).to_digit(16)?);
    }
    let length = name.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(name.len());
    let start = u32::try_from(start + line.len() - name.len()).ok()?;
    Some((address, start, start + length as u32))
}

/// What a thread waits for, told by the kernel functions it waits in (leaf first).
pub(crate) fn wait_kind<'a>(functions: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let mut found = None;
    for function in functions {
        if let Some(kind) = wait_of(function) {
            // The outermost says best what the thread asked for: a read that waits for a page is a read.
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

/// What kind of wait a system call is.
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
    fn functions_by_address() {
        let list = "ffffffff81000100 t helper\nffffffff81000000 T _stext\nffffffff81000180 d data\n\
                    ffffffffc0000000 t probe\t[module]\n";
        let symbols = KernelSymbols::read(list.as_bytes()).expect("shown");
        assert_eq!(symbols.name(0xffff_ffff_8100_01f0), Some("helper"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0001), Some("probe"));
        assert_eq!(symbols.name(0xffff_ffff_8000_0000), None);
        assert!(KernelSymbols::read("0000000000000000 T _stext\n".as_bytes()).is_none());
    }

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
