//! The emergency file: opened and given its blocks in advance, written only with system calls.
//!
//! It gets a copy of the used parts of the ledger, at the same offsets. Writing it again overwrites the same bytes:
//! stacks do not change once written, and counters are replaced by newer ones, so a process that is killed in the
//! middle leaves a readable file.

use super::files::NewFile;
use super::kept_file::{KeptFile, OpenFile, keeping_errno};
use super::ledger::{Field, Ledger, MAGIC, Reason, RecordId};
use crate::clock;
use flamelet_profile::open_regular;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static FILE: KeptFile = KeptFile::none();
static IS_BUSY: AtomicBool = AtomicBool::new(false);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Creates the file and writes the ledger as it is now.
pub(super) fn prepare(path: &Path, ledger: &Ledger) -> io::Result<()> {
    // Another start must not move it away.
    if FILE.is_at(path) {
        return Ok(());
    }
    let new = NewFile::create(path)?;
    let open = OpenFile::of(&new.file);
    open.reserve(ledger.file_length())?;
    ledger.copy_to(open)?;
    let file = new.put_in_place(has_emergency)?;
    // No thread may be writing to the file that was prepared before.
    while IS_BUSY.swap(true, Ordering::AcqRel) {
        std::thread::yield_now();
    }
    let kept = FILE.keep(file);
    IS_BUSY.store(false, Ordering::Release);
    kept
}

/// Returns whether an earlier process wrote to the file: one that was only prepared is not worth keeping, and must
/// not push out one that is.
fn has_emergency(path: &Path) -> bool {
    let mut header = [0; 8 * (Field::Reason as usize + 1)];
    let Ok(()) = open_regular(path).and_then(|mut file| file.read_exact(&mut header)) else { return true };
    let word =
        |field: Field| header[8 * field as usize..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    word(Field::Magic) != Some(MAGIC) || word(Field::Reason) != Some(Reason::None as u64)
}

/// In the child of a fork: forgets the file, which is the parent's.
pub(super) fn forget_file() {
    FILE.forget();
    IS_BUSY.store(false, Ordering::Release);
}

/// Returns how often an emergency profile was written.
pub(super) fn written() -> u64 {
    WRITTEN.load(Ordering::Relaxed)
}

/// Writes the ledger to the file, if one was prepared. Does not allocate; `errno` stays as it was.
pub(super) fn write(ledger: &Ledger, reason: Reason, bytes: u64, stack: RecordId) {
    if IS_BUSY.swap(true, Ordering::AcqRel) {
        return;
    }
    keeping_errno(|| {
        ledger.set(Field::ReasonBytes, bytes);
        ledger.set(Field::ReasonStack, u64::from(stack.0));
        ledger.set(Field::ReasonTime, clock::unix_nanos() as u64);
        ledger.set(Field::Reason, reason as u64);
        if FILE.open().is_some_and(|file| ledger.copy_to(file).is_ok()) {
            WRITTEN.fetch_add(1, Ordering::Relaxed);
        }
    });
    IS_BUSY.store(false, Ordering::Release);
}
