//! Keeps the table of labels whole across a fork: the forking thread holds its lock meanwhile. Where that is not
//! possible, the child gets a table of its own.

use super::SetTable;
use flamelet_unwind::fork::{self, Handlers, HeldThroughFork, Part, PerProcess};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};

static TABLE: PerProcess<Mutex<SetTable>> = PerProcess::new();
static HELD: HeldThroughFork<MutexGuard<'static, SetTable>> = HeldThroughFork::new();
static AT_FORK: Handlers = Handlers { before, in_parent: || HELD.release(), in_child };

thread_local! {
    /// Whether this thread has used the table. If so, its forks are certain to be watched.
    static HAS_USED: Cell<bool> = const { Cell::new(false) };
}

/// Returns this process' table.
pub(super) fn shared_table() -> &'static Mutex<SetTable> {
    match TABLE.known() {
        // No need to ask the kernel which process this is.
        Some(table) if HAS_USED.get() => table,
        _ => first_use(),
    }
}

#[cold]
fn first_use() -> &'static Mutex<SetTable> {
    let table = TABLE.get(|_| {
        fork::watch(Part::Labels, &AT_FORK);
        Mutex::default()
    });
    HAS_USED.set(true);
    table
}

/// Returns the table if there is one; its lock may be tried, but not waited for. Allocates nothing.
pub(super) fn known_table() -> Option<&'static Mutex<SetTable>> {
    TABLE.known()
}

fn before() {
    if let Some(table) = TABLE.known() {
        HELD.hold(|| match table.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
    }
}

fn in_child() {
    if HELD.release_in_child() {
        TABLE.adopt();
    } else {
        TABLE.disown();
        HAS_USED.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_test_support::holds_in_child;
    use std::sync::mpsc;

    #[test]
    fn a_child_keeps_the_table_or_gets_its_own_if_nobody_can_unlock_it() {
        let number = |table: &Mutex<SetTable>| std::ptr::from_ref(table) as usize;
        let parents = number(shared_table());
        assert!(holds_in_child(|| number(shared_table()) == parents && shared_table().lock().is_ok()));
        let (locked, is_locked) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let _guard = shared_table().lock();
            locked.send(()).expect("it waits");
            let _ = is_over.recv();
        });
        is_locked.recv().expect("it locks");
        assert!(holds_in_child(|| number(shared_table()) != parents && shared_table().lock().is_ok()));
        drop(end);
        holder.join().expect("no panic");
        assert!(holds_in_child(|| number(shared_table()) == parents));
    }
}
