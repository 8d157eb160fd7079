//! Threads that waited already when the recording began: nothing is heard of them until they run again, if
//! ever, but where they wait can be looked up.

use flamelet_unwind::{MAX_DEPTH, Registers};

use super::Intake;
use crate::events::wire::ThreadOf;

/// The system call that a thread waits in, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    call: i64,
    sp: u64,
    pc: u64,
}

impl Wait {
    /// `None` for a thread that runs.
    fn of(thread: ThreadOf) -> Option<Self> {
        let path = format!("/proc/{}/task/{}/syscall", thread.pid, thread.tid);
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// `NUMBER ARGUMENT… SP PC`, or `running`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [call, .., sp, pc] = words[..] else { return None };
        let address = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        Some(Self { call: call.parse().ok()?, sp: address(sp)?, pc: address(pc)? })
    }
}

impl Intake {
    /// Notes where `thread` waits now, as since before the recording.
    pub(super) fn note_wait(&mut self, thread: ThreadOf) {
        let Some(wait) = Wait::of(thread) else { return };
        let space = self.spaces.of_stack(thread.pid).clone();
        let mut frames = [0; MAX_DEPTH];
        // The frame pointer is not told; rules that need it end the stack.
        let registers = Registers { pc: wait.pc, sp: wait.sp, fp: 0, lr: 0 };
        let walked = self.walk_live(thread, &registers, &mut frames);
        // It must have stood there all the time while it was read.
        if Wait::of(thread) != Some(wait) {
            return;
        }
        let stack = self.stacks.intern(thread.pid, space.id, &space.modules, &frames[..walked.depth]);
        self.waits.insert(stack, wait.call);
        let since = self.started_at;
        let state = self.threads.of(thread);
        if state.is_silent {
            state.stopped_at = Some(stack);
            state.stopped_since = Some((since, false));
        }
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
