//! Threads that were already waiting when the recording began. They produce no records until they run again, if ever,
//! but where they wait can be looked up.

use crate::events::ring_records::ThreadOf;

/// The system call in which a thread waits, and its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) call: i64,
    pub(super) sp: u64,
    pub(super) pc: u64,
}

impl Wait {
    /// Returns `None` for a running thread.
    pub(super) fn of(thread: ThreadOf) -> Option<Self> {
        let path = format!("/proc/{}/task/{}/syscall", thread.pid, thread.tid);
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// Parses `NUMBER ARGUMENT… SP PC`, or `running`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [call, .., sp, pc] = words[..] else { return None };
        let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Some(Self { call: call.parse().ok()?, sp: address(sp)?, pc: address(pc)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_waiting_thread() {
        let line = "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffd1000 0x7f0012\n";
        assert_eq!(Wait::parse(line), Some(Wait { call: 202, sp: 0x7ffd_1000, pc: 0x7f_0012 }));
        assert_eq!(Wait::parse("running\n"), None);
        assert_eq!(Wait::parse(""), None);
    }
}
