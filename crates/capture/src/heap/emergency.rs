//! The emergency file: opened and given its blocks in advance, written with nothing but system calls.
//!
//! It gets a copy of the used parts of the ledger, at the offsets that they have in the ledger. Writing it
//! again goes over the same bytes: stacks do not change once written, and counters are replaced by newer ones,
//! so that a process which is killed in the middle leaves a readable file.

use super::files::NewFile;
use super::ledger::{Field, HEADER_WORDS, Ledger, MAGIC, RecordId, Section};
use super::memory;
use crate::clock;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Why an emergency profile was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Reason {
    /// The file was only prepared.
    None = 0,
    /// The limit of a control group is near.
    Cgroup,
    /// `RLIMIT_AS` is near.
    AddressSpace,
    /// The limit that the service named is near.
    Named,
    /// The inner allocator had no memory.
    Refused,
}

impl Reason {
    pub(super) const ALL: [Self; 5] =
        [Self::None, Self::Cgroup, Self::AddressSpace, Self::Named, Self::Refused];
}

static FILE: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static IS_BUSY: AtomicBool = AtomicBool::new(false);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Makes the file and writes the ledger as it is now.
pub(super) fn prepare(path: &Path, ledger: &Ledger) -> io::Result<()> {
    if is_prepared(path) {
        return Ok(());
    }
    let new = NewFile::create(path)?;
    memory::reserve(&new.file, ledger.words().len() * 8)?;
    copy(ledger, new.file.as_raw_fd())?;
    let file = new.put_in_place(tells_of_an_emergency)?;
    let metadata = file.metadata()?;
    // Nobody may be writing to the file that was prepared before.
    while IS_BUSY.swap(true, Ordering::AcqRel) {
        std::thread::yield_now();
    }
    DEVICE.store(metadata.dev(), Ordering::Relaxed);
    INODE.store(metadata.ino(), Ordering::Relaxed);
    let old = FILE.swap(file.into_raw_fd(), Ordering::AcqRel);
    IS_BUSY.store(false, Ordering::Release);
    if old >= 0 {
        // SAFETY: the descriptor was ours, and nobody takes it from the static any more.
        unsafe { libc::close(old) };
    }
    Ok(())
}

/// Whether the file at `path` is the one that this process has prepared: another start must not move it away.
fn is_prepared(path: &Path) -> bool {
    let file = FILE.load(Ordering::Acquire);
    file >= 0
        && is_still_ours(file)
        && std::fs::metadata(path).is_ok_and(|found| {
            found.dev() == DEVICE.load(Ordering::Relaxed) && found.ino() == INODE.load(Ordering::Relaxed)
        })
}

/// Whether an earlier process wrote to the file: one that was only prepared is not worth to be kept, and must not
/// push out one that is.
fn tells_of_an_emergency(path: &Path) -> bool {
    let mut header = [0; 8 * (Field::Reason as usize + 1)];
    let Ok(()) = File::open(path).and_then(|mut file| file.read_exact(&mut header)) else { return true };
    let word =
        |field: Field| header[8 * field as usize..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    word(Field::Magic) != Some(MAGIC) || word(Field::Reason) != Some(Reason::None as u64)
}

/// In the child of a fork: the file is the parent's.
pub(super) fn forget_file() {
    FILE.store(-1, Ordering::Release);
    IS_BUSY.store(false, Ordering::Release);
}

/// How often an emergency profile was written.
pub(super) fn written() -> u64 {
    WRITTEN.load(Ordering::Relaxed)
}

/// Writes the ledger to the file, if one was prepared. Does not allocate; `errno` stays as it was.
pub(super) fn write(ledger: &Ledger, reason: Reason, bytes: u64, stack: RecordId) {
    if IS_BUSY.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: this thread's own `errno`.
    let errno = unsafe { *libc::__errno_location() };
    ledger.set(Field::ReasonBytes, bytes);
    ledger.set(Field::ReasonStack, u64::from(stack.0));
    ledger.set(Field::ReasonTime, clock::unix_nanos() as u64);
    ledger.set(Field::Reason, reason as u64);
    let file = FILE.load(Ordering::Acquire);
    if file >= 0 && is_still_ours(file) && copy(ledger, file).is_ok() {
        WRITTEN.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    IS_BUSY.store(false, Ordering::Release);
}

/// Programs that close all descriptors exist, and the number may be another file's by now.
fn is_still_ours(file: i32) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills in the struct, or leaves it zero; zeroes are a valid `stat`.
    let stat = unsafe {
        libc::fstat(file, stat.as_mut_ptr());
        stat.assume_init()
    };
    stat.st_dev == DEVICE.load(Ordering::Relaxed) && stat.st_ino == INODE.load(Ordering::Relaxed)
}

fn copy(ledger: &Ledger, file: i32) -> io::Result<()> {
    // The header first, for its counts: a reader that finds less than they say skips what is missing.
    copy_words(ledger, file, 0, HEADER_WORDS)?;
    for section in Section::ALL {
        let (start, used) = ledger.extent(section);
        copy_words(ledger, file, start, used)?;
    }
    Ok(())
}

fn copy_words(ledger: &Ledger, file: i32, start: usize, length: usize) -> io::Result<()> {
    let words = &ledger.words()[start..start + length];
    let (mut done, bytes) = (0, length * 8);
    while done < bytes {
        let offset = (start * 8 + done) as libc::off_t;
        // SAFETY: the words stay mapped for ever; that others change them meanwhile is the kernel's read, not
        // ours, and each word is whole or newer.
        let wrote =
            unsafe { libc::pwrite(file, words.as_ptr().cast::<u8>().add(done).cast(), bytes - done, offset) };
        match usize::try_from(wrote) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => done += more,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
