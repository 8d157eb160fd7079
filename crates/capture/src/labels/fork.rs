//! The table of labels stays whole across a `fork`: whoever forks holds its lock meanwhile. Where that is not
//! possible the child gets a table of its own.

use super::Table;
use flamelet_unwind::live::PerProcess;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Longer than anyone who runs holds the lock. Who waits for longer has interrupted its holder, most likely.
const PATIENCE: Duration = Duration::from_secs(1);

static TABLE: PerProcess<Mutex<Table>> = PerProcess::new();
static HELD: Held = Held(UnsafeCell::new(None));

thread_local! {
    /// Whether this thread has used the table. When it forks then, its forks are watched for sure.
    static HAS_USED: Cell<bool> = const { Cell::new(false) };
    static FORK: Cell<Fork> = const { Cell::new(Fork::None) };
}

/// What this thread is doing.
#[derive(Clone, Copy)]
enum Fork {
    None,
    WithTheLock,
    WithoutTheLock,
}

struct Held(UnsafeCell<Option<MutexGuard<'static, Table>>>);

// SAFETY: only whoever holds the lock looks inside: `hold` after it took it, `release` after `hold` did. Of
// two threads that fork at once the second waits in `hold` until the first has released.
unsafe impl Sync for Held {}

/// This process' table.
pub(super) fn shared_table() -> &'static Mutex<Table> {
    match TABLE.known() {
        // No need to ask the kernel which process this is.
        Some(table) if HAS_USED.get() => table,
        _ => first_use(),
    }
}

#[cold]
fn first_use() -> &'static Mutex<Table> {
    let table = TABLE.get(|_| {
        watch();
        Mutex::default()
    });
    HAS_USED.set(true);
    table
}

/// The table if there is one: good to try, not to wait for. Allocates nothing.
pub(super) fn known_table() -> Option<&'static Mutex<Table>> {
    TABLE.known()
}

/// Before there is anything that a child must not share.
fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // Threads that come first at once may all register the functions, which know when they are called twice.
    if !IS_WATCHED.load(Ordering::Acquire) {
        // SAFETY: registers functions with the right signature.
        unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(release_in_the_child)) };
        IS_WATCHED.store(true, Ordering::Release);
    }
}

extern "C" fn hold() {
    if !matches!(FORK.get(), Fork::None) {
        return;
    }
    let Some(guard) = TABLE.known().and_then(lock_soon) else {
        FORK.set(Fork::WithoutTheLock);
        return;
    };
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(guard) };
    FORK.set(Fork::WithTheLock);
}

fn lock_soon(table: &'static Mutex<Table>) -> Option<MutexGuard<'static, Table>> {
    let start = Instant::now();
    loop {
        match table.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

extern "C" fn release() {
    if let Fork::WithTheLock = FORK.replace(Fork::None) {
        // SAFETY: this thread, or in the child its copy, holds the lock since `hold`.
        drop(unsafe { (*HELD.0.get()).take() });
    }
}

extern "C" fn release_in_the_child() {
    match FORK.get() {
        Fork::None => {}
        Fork::WithTheLock => TABLE.adopt(),
        Fork::WithoutTheLock => {
            TABLE.disown();
            HAS_USED.set(false);
        }
    }
    release();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Whether `check` holds in a child that this thread forks.
    fn holds_in_a_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child uses what is made for it, and leaves.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                libc::_exit(i32::from(!check()));
            }
            let mut status = -1;
            libc::waitpid(child, &raw mut status, 0) == child && status == 0
        }
    }

    #[test]
    fn a_child_keeps_the_table_or_gets_its_own_if_nobody_can_unlock_it() {
        let number = |table: &Mutex<Table>| std::ptr::from_ref(table) as usize;
        let parents = number(shared_table());
        assert!(holds_in_a_child(|| number(shared_table()) == parents && shared_table().lock().is_ok()));
        let (locked, is_locked) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let _guard = shared_table().lock();
            locked.send(()).expect("it waits");
            let _ = is_over.recv();
        });
        is_locked.recv().expect("it locks");
        assert!(holds_in_a_child(|| number(shared_table()) != parents && shared_table().lock().is_ok()));
        drop(end);
        holder.join().expect("no panic");
        assert!(holds_in_a_child(|| number(shared_table()) == parents));
    }
}
