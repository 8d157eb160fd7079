//! Threads of this process, as the kernel knows them.

use std::cell::Cell;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::descriptor;

thread_local! {
    static TID: Cell<Tid> = const { Cell::new(0) };
    static NAME: Cell<([u8; 16], u32)> = const { Cell::new(([0; 16], 0)) };
}

/// The kernel's id of a thread.
pub(crate) type Tid = i32;

/// Returns this thread's id. Async-signal-safe; asks the kernel once per thread.
#[inline]
pub(crate) fn this_thread() -> Tid {
    match TID.get() {
        0 => ask_this_thread(),
        tid => tid,
    }
}

#[cold]
fn ask_this_thread() -> Tid {
    // SAFETY: a system call without arguments that cannot fail, and so leaves `errno` alone.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as Tid;
    TID.set(tid);
    tid
}

/// Forgets the cached id, in the child of a fork.
pub(crate) fn forget_this_thread() {
    TID.set(0);
}

/// Returns where this thread's thread-local memory is, relative to its control block. The same for all threads where
/// the memory is static, that is, made with the thread: only then may a signal handler be the first to use it.
pub(crate) fn local_memory() -> u64 {
    let here = TID.with(|tid| std::ptr::from_ref(tid) as u64);
    here.wrapping_sub(flamelet_unwind::live::thread_pointer())
}

/// Returns the names of threads of this process that now block `signal` by their own choice.
pub(crate) fn names_of_blocking_threads(signal: libc::c_int) -> Vec<String> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let statuses =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    statuses.filter_map(|status| blocking_name(&status, signal)).collect()
}

/// Returns the name of the thread with this `status`, if it blocks `signal`.
///
/// The C library itself blocks everything for a moment when a thread is born, ends (such as the collector of a
/// capture that is just over) or starts a program. Then it also blocks its own signals, which it lets no other code
/// do.
fn blocking_name(status: &str, signal: libc::c_int) -> Option<String> {
    const OF_THE_C_LIBRARY: libc::c_int = 32;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let mask = u64::from_str_radix(field("SigBlk:")?, 16).ok()?;
    let is_blocked = |signal: libc::c_int| mask >> (signal - 1) & 1 == 1;
    let is_own_choice = is_blocked(signal) && !is_blocked(OF_THE_C_LIBRARY);
    is_own_choice.then(|| field("Name:").unwrap_or_default().to_owned())
}

/// Returns this thread's name, up to 15 bytes and zeros. Async-signal-safe. Asks the kernel the first time and then
/// now and then, because a name may change; less and less often, because most change at the start.
#[inline]
pub(crate) fn name_of_this_thread() -> [u8; 16] {
    const ASK_AT_LEAST_EVERY: u32 = 256;
    let (name, uses) = NAME.get();
    let name = if uses & uses.wrapping_sub(1) == 0 { ask_name() } else { name };
    NAME.set((name, (uses + 1) % ASK_AT_LEAST_EVERY));
    name
}

/// Returns this thread's name as the kernel has it now. Async-signal-safe.
#[cold]
pub(crate) fn ask_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes 16 bytes to `name`, which has them. (A raw system call: no libc in between.)
    // `errno` belongs to this thread, and a filter may answer the call with an error.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, name.as_mut_ptr());
        *errno = before;
    }
    name
}

/// A thread in a [`Listing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Listed {
    pub(crate) tid: Tid,
    /// The number of its folder. A later thread with the same id has another number; the same thread may get another
    /// one, too, when the kernel needed memory.
    pub(crate) folder: u64,
}

/// The list of this process' threads. Kept open, because it is read many times a second.
pub(crate) struct Listing {
    folder: ListedFolder,
    buffer: Vec<u8>,
}

/// The folder, as long as the program opens nothing else under its number: that would be read, rewound or closed in its place.
struct ListedFolder {
    descriptor: RawFd,
    device: u64,
    inode: u64,
}

impl ListedFolder {
    fn open() -> io::Result<Self> {
        let folder = descriptor::with_high_number(std::fs::File::open("/proc/self/task")?).into_raw_fd();
        let stat = descriptor::status(folder);
        Ok(Self { descriptor: folder, device: stat.st_dev, inode: stat.st_ino })
    }

    fn is_ours(&self) -> bool {
        let stat = descriptor::status(self.descriptor);
        (stat.st_dev, stat.st_ino) == (self.device, self.inode)
    }
}

impl Drop for ListedFolder {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the descriptor is ours still, and nothing else closes it.
            drop(unsafe { OwnedFd::from_raw_fd(self.descriptor) });
        }
    }
}

impl Listing {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { folder: ListedFolder::open()?, buffer: vec![0; 16 << 10] })
    }

    /// Writes the threads to `listed`, sorted by their ids. While threads end, the kernel may leave out some that live.
    pub(crate) fn read(&mut self, listed: &mut Vec<Listed>) {
        listed.clear();
        if !self.folder.is_ours() {
            let Ok(folder) = ListedFolder::open() else { return };
            self.folder = folder;
        }
        let folder = self.folder.descriptor;
        // SAFETY: moves a file position.
        unsafe { libc::lseek(folder, 0, libc::SEEK_SET) };
        loop {
            let (start, size) = (self.buffer.as_mut_ptr(), self.buffer.len());
            // SAFETY: the kernel writes at most `size` bytes to the buffer.
            let length = unsafe { libc::syscall(libc::SYS_getdents64, folder, start, size) };
            let Some(entries) = usize::try_from(length).ok().filter(|&length| length > 0) else { break };
            listed.extend(DirectoryEntries(&self.buffer[..entries]).filter_map(|(folder, name)| {
                Some(Listed { tid: std::str::from_utf8(name).ok()?.parse().ok()?, folder })
            }));
        }
        listed.sort_unstable();
    }
}

/// The numbers and names in what `getdents64` wrote.
struct DirectoryEntries<'a>(&'a [u8]);

impl<'a> Iterator for DirectoryEntries<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const LENGTH: usize = 16;
        const NAME: usize = 19;
        let number = u64::from_ne_bytes(*self.0.first_chunk()?);
        let length = usize::from(u16::from_ne_bytes([*self.0.get(LENGTH)?, *self.0.get(LENGTH + 1)?]));
        let name = self.0.get(NAME..length)?;
        self.0 = &self.0[length..];
        Some((number, name.split(|&byte| byte == 0).next().unwrap_or(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn threads_are_listed_while_they_live() {
        let mut listing = Listing::open().expect("/proc is there");
        let mut listed = Vec::new();
        let lists = |listed: &[Listed], tid: Tid| listed.iter().any(|listed| listed.tid == tid);
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tid_send, tid_receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tid_send.send(this_thread()).expect("it waits");
            let _ = receive.recv();
        });
        let other = tid_receive.recv().expect("it runs");
        // Other tests' threads end meanwhile, so one listing may leave these out, but not every one.
        while !(lists(&listed, this_thread()) && lists(&listed, other)) {
            listing.read(&mut listed);
            assert!(listed.is_sorted());
        }
        drop(send);
        thread.join().expect("no panic");
        // The kernel lets a joined thread linger for a moment.
        while lists(&listed, other) || !lists(&listed, this_thread()) {
            std::thread::yield_now();
            listing.read(&mut listed);
        }
    }

    /// As a shell's `exec 3>file` does, or a daemon that closes all descriptors.
    #[test]
    fn a_file_that_the_program_opens_under_the_number_of_the_list_is_left_alone() {
        let mut listing = Listing::open().expect("/proc is there");
        let number = listing.folder.descriptor;
        let mut own = std::fs::File::open("/proc/self/exe").expect("it runs");
        own.seek(SeekFrom::Start(5)).expect("a file");
        // SAFETY: both are open, and only this test knows the second one.
        assert_eq!(unsafe { libc::dup2(own.as_raw_fd(), number) }, number);
        let mut listed = Vec::new();
        while !listed.iter().any(|listed: &Listed| listed.tid == this_thread()) {
            listing.read(&mut listed);
        }
        assert_ne!(listing.folder.descriptor, number);
        let of_own = own.metadata().expect("a file").ino();
        assert_eq!((own.stream_position().expect("a file"), descriptor::status(number).st_ino), (5, of_own));
        drop(listing);
        // SAFETY: opened above.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn a_status_says_what_is_blocked() {
        let status = "Name:\tworker one\nPid:\t7\nSigPnd:\t0000000004000000\nSigBlk:\t0000000004000000\n";
        assert_eq!(blocking_name(status, libc::SIGPROF), Some("worker one".to_owned()));
        assert_eq!(blocking_name(status, libc::SIGVTALRM), None);
        assert_eq!(blocking_name("SigBlk:\tnonsense", libc::SIGPROF), None);
        assert_eq!(blocking_name("", libc::SIGPROF), None);
        let chosen = "Name:\tall\nSigBlk:\tfffffffe7ffbfeff\n";
        assert_eq!(blocking_name(chosen, libc::SIGPROF), Some("all".to_owned()));
        let ending = "Name:\tending\nSigBlk:\tfffffffefffbfeff\n";
        assert_eq!(blocking_name(ending, libc::SIGPROF), None);
    }

    /// The C library blocks all signals at the end of every thread.
    #[test]
    fn short_threads_are_not_reported_as_blocking() {
        const NAME: &str = "comes-and-goes";
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1500 {
                    let thread = std::thread::Builder::new().name(NAME.into()).spawn(|| ());
                    thread.expect("starts").join().expect("no panic");
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let names = names_of_blocking_threads(libc::SIGPROF);
                assert!(!names.iter().any(|name| name == NAME), "{names:?}");
            }
        });
    }

    #[test]
    fn a_thread_knows_its_name() {
        let thread = std::thread::Builder::new()
            .name("a-name".into())
            .spawn(|| (0..20).map(|_| name_of_this_thread()).next_back().expect("asked twenty times"));
        let name = thread.expect("starts").join().expect("no panic");
        assert!(name.starts_with(b"a-name\0"), "{name:?}");
    }
}
