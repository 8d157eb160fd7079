//! Threads of this process, as the kernel knows them.

use std::cell::Cell;

thread_local! {
    static TID: Cell<Tid> = const { Cell::new(0) };
}

/// The kernel's id of a thread.
pub(crate) type Tid = i32;

/// This thread's id. Async-signal-safe; asks the kernel once a thread.
#[inline]
pub(crate) fn this_thread() -> Tid {
    match TID.get() {
        0 => ask_this_thread(),
        tid => tid,
    }
}

#[cold]
fn ask_this_thread() -> Tid {
    // SAFETY: a system call without arguments that cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as Tid;
    TID.set(tid);
    tid
}

/// Forgets the cached id, in the child of a fork.
pub(crate) fn forget_this_thread() {
    TID.set(0);
}

/// Writes this thread's name, up to 15 bytes and zeros. Async-signal-safe.
#[inline]
pub(crate) fn name_of_this_thread(into: &mut [u8; 16]) {
    // SAFETY: the kernel writes 16 bytes to `into`, which has them. (A raw system call: no libc in between.)
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, into.as_mut_ptr()) };
}

/// The ids of all threads of this process, sorted, into `tids`. Leaves `tids` empty when `/proc` is not there.
pub(crate) fn list(tids: &mut Vec<Tid>) {
    tids.clear();
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return };
    let named = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<Tid>().ok());
    tids.extend(named);
    tids.sort_unstable();
}
