//! What a thread waited for, as far as its stack shows it.

use flamelet_capture::wait::{Row, Rows};

use super::idle;
use super::names::Names;
use crate::symbols::Symbols;

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    RwLock,
    Condvar,
    Channel,
    Once,
    Barrier,
    Join,
    Park,
}

/// Words in the names of functions, innermost first in every stack, and what they mean. The first that matches counts.
const WORDS: &[(&str, Kind)] = &[
    ("mutex::futex::", Kind::Mutex),
    ("raw_mutex::", Kind::Mutex),
    ("ReentrantLock", Kind::Mutex),
    ("rwlock::futex::", Kind::RwLock),
    ("raw_rwlock::", Kind::RwLock),
    ("condvar::", Kind::Condvar),
    ("::Condvar", Kind::Condvar),
    ("mpmc::", Kind::Channel),
    ("mpsc::", Kind::Channel),
    ("crossbeam_channel::", Kind::Channel),
    ("once::futex::", Kind::Once),
    ("::Once::", Kind::Once),
    ("OnceLock", Kind::Once),
    ("once_cell::", Kind::Once),
    ("JoinHandle", Kind::Join),
    ("thread::park", Kind::Park),
    ("thread::functions::park", Kind::Park),
    ("thread::Thread::park", Kind::Park),
    ("thread::Thread>::park", Kind::Park),
    ("Parker::park", Kind::Park),
];

/// What is made of a lock and a condition variable.
const MADE_OF_CONDVAR: &[(&str, Kind)] = &[
    ("sync::barrier::", Kind::Barrier),
    ("crossbeam_utils::sync::parker::", Kind::Park),
    // Who hands work to a pool, and a worker that needs the result of another one.
    ("rayon_core::latch::", Kind::Join),
    ("rayon_core::sleep::", Kind::Join),
];

/// How many frames from the leaf are looked at.
const FRAMES: usize = 12;

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Condvar => "condvar",
            Self::Channel => "channel",
            Self::Once => "once",
            Self::Barrier => "barrier",
            Self::Join => "join",
            Self::Park => "park",
        }
    }

    /// Returns whether one thread holds it while others wait.
    pub(super) fn is_lock(self) -> bool {
        matches!(self, Self::Mutex | Self::RwLock | Self::Once)
    }

    /// Returns the kind of a stack with these functions, leaf first. A channel or a join parks its thread, and a barrier waits
    /// for a condition, so what was found may turn out to be a part of something further out.
    fn of_stack<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut found = None;
        for name in names {
            let of = |words: &[(&str, Self)]| {
                words.iter().find(|(word, _)| name.contains(word)).map(|&(_, kind)| kind)
            };
            if found == Some(Self::Condvar) {
                match of(MADE_OF_CONDVAR) {
                    None => continue,
                    whole => return whole,
                }
            }
            match of(WORDS) {
                None => {}
                Some(part @ (Self::Park | Self::Condvar)) if found.is_none() => found = Some(part),
                Some(Self::Park) => {}
                whole => return whole,
            }
        }
        found
    }
}

/// The functions on the stacks of some waits.
pub(super) struct Kinds {
    names: Names,
}

impl Kinds {
    pub(super) fn of(symbols: &Symbols, rows: &Rows) -> Self {
        Self { names: Names::of(symbols, rows.iter().flat_map(|row| row.stack.iter().copied())) }
    }

    pub(super) fn of_row(&self, row: &Row) -> Option<Kind> {
        Kind::of_stack(self.names.on(leaves(row)))
    }

    /// Returns whether it was a worker without work that waited.
    pub(super) fn is_idle(&self, row: &Row) -> bool {
        idle::is_idle(self.names.on(&row.stack))
    }
}

fn leaves(row: &Row) -> &[u64] {
    &row.stack[..row.stack.len().min(FRAMES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_tells_and_a_channel_is_more_than_a_park() {
        let of = |names: &[&str]| Kind::of_stack(names.iter().copied()).map(Kind::name);
        let futex = "std::sys::pal::unix::futex::futex_wait";
        assert_eq!(
            of(&[futex, "std::sys::sync::mutex::futex::Mutex::lock_contended", "app::main"]),
            Some("mutex")
        );
        assert_eq!(of(&["parking_lot::raw_mutex::RawMutex::lock_slow"]), Some("mutex"));
        assert_eq!(of(&[futex, "std::sys::sync::rwlock::futex::RwLock::read_contended"]), Some("rwlock"));
        assert_eq!(of(&["parking_lot::condvar::Condvar::wait_until_internal"]), Some("condvar"));
        let recv = ["std::thread::park", "std::sync::mpmc::list::Channel<T>::recv", "app::main"];
        assert_eq!(of(&recv), Some("channel"));
        for park in [
            "std::thread::park",
            "std::thread::functions::park",
            "<std::thread::thread::Thread>::park_timeout",
        ] {
            assert_eq!(of(&[park, "app::main"]), Some("park"), "{park}");
        }
        let wait = "std::sync::poison::condvar::Condvar::wait";
        assert_eq!(of(&[futex, wait, "std::sync::barrier::Barrier::wait", "app::main"]), Some("barrier"));
        assert_eq!(of(&[wait, "rayon_core::latch::LockLatch::wait_and_reset"]), Some("join"));
        assert_eq!(of(&[wait, "app::poll", "std::sync::mpmc::list::Channel<T>::recv"]), Some("condvar"));
        let of_once_cell = ["std::thread::park", "once_cell::imp::wait", "app::config"];
        assert_eq!(of(&of_once_cell), Some("once"));
        assert_eq!(of(&[futex, "app::main"]), None);
        assert_eq!(of(&[]), None);
    }
}
