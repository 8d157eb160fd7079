//! The loaded modules, kept in the ledger too, so that it can be read when the process is gone.

use super::ledger::Ledger;
use crate::loaded_modules;
use flamelet_unwind::fork::{Guard, HeldThroughFork, Lock};
use flamelet_unwind::live;

/// Readers find the end of the modules by a gap, so no two may be written at a time, and none while the process
/// forks: the child would have the gap forever.
static WRITING: Lock<()> = Lock::new(());
static HELD: HeldThroughFork<Guard<'static, ()>> = HeldThroughFork::new();

/// Before a fork: waits until no thread writes modules, and keeps others from starting to. Not forever: the writer
/// may be waiting for a loader lock that the forking thread holds, or be the forking thread, in a signal handler.
pub(super) fn hold_for_fork() {
    HELD.hold(|| WRITING.try_lock());
}

/// After a fork, in the parent.
pub(super) fn release_after_fork() {
    HELD.release();
}

/// After a fork, in the child, which has no thread that writes.
pub(super) fn release_in_child() {
    HELD.release_in_child();
    WRITING.reset_in_child();
}

/// Learns what is loaded now, for the unwinder, and writes what is new to the ledger.
pub(super) fn refresh(ledger: &Ledger) -> crate::Result<()> {
    let _writing = WRITING.lock();
    let refreshed = loaded_modules::refresh();
    if refreshed.is_ok() {
        for module in live::modules().iter() {
            ledger.module(module);
        }
    }
    refreshed
}
