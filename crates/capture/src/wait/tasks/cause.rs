//! Why a poll takes long.

use super::super::{calls, threads};
use crate::threads::Tid;

/// What a thread does in the middle of a long poll, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sight {
    /// Unknown, or none of the following.
    Other,
    /// Running, or waiting for a CPU.
    Running,
    /// Waiting for a file.
    File,
}

impl Sight {
    /// Looks at a thread. Take its stack afterwards, because a thread that answers is running.
    pub(super) fn of(thread: Tid) -> Self {
        match threads::state_of(thread) {
            Some('R') => Self::Running,
            _ if calls::is_at_file(thread) => Self::File,
            // Outside of a call, only the memory of a file or swap makes it wait so.
            Some('D') if calls::SystemCall::of(thread).is_none() => Self::File,
            _ => Self::Other,
        }
    }

    pub(super) fn from_raw(raw: u8) -> Self {
        [Self::Running, Self::File].into_iter().find(|sight| *sight as u8 == raw).unwrap_or(Self::Other)
    }
}

/// Times of polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) running: u64,
    /// Off the CPU.
    pub(super) blocked: u64,
    /// In locks.
    pub(super) locked: u64,
}

impl Times {
    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            running: self.running.wrapping_add(more.running),
            blocked: self.blocked.wrapping_add(more.blocked),
            locked: self.locked.wrapping_add(more.locked),
        }
    }

    /// Returns what was added since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            running: self.running.wrapping_sub(before.running),
            blocked: self.blocked.wrapping_sub(before.blocked),
            locked: self.locked.wrapping_sub(before.locked),
        }
    }

    /// Returns what most of a poll with these times was spent on. If it was off the CPU, what was `seen` of it says
    /// why.
    pub(super) fn cause(self, seen: Sight) -> &'static str {
        match seen {
            _ if self.locked * 2 > self.running => "lock",
            _ if self.blocked * 2 <= self.running => "cpu",
            Sight::Running => "cpu",
            Sight::File => "file",
            Sight::Other => "system call",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_the_time_and_what_was_seen_decide() {
        let times = |blocked, locked| Times { running: 100, blocked, locked };
        assert_eq!(times(90, 60).cause(Sight::Other), "lock");
        assert_eq!(times(40, 0).cause(Sight::File), "cpu");
        assert_eq!(times(90, 0).cause(Sight::Running), "cpu", "others had the CPU");
        assert_eq!(times(90, 40).cause(Sight::File), "file");
        assert_eq!(times(90, 0).cause(Sight::Other), "system call");
    }

    #[test]
    fn a_sight_survives_as_a_number() {
        for sight in [Sight::Other, Sight::Running, Sight::File] {
            assert_eq!(Sight::from_raw(sight as u8), sight);
        }
        assert_eq!(Sight::from_raw(77), Sight::Other);
    }
}
