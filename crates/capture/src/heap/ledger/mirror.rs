//! The mirror: a file that has every change of a ledger, and survives the process however it ends.
//!
//! Changes are copied by `pwrite`. A shared mapping of the file would cost less (a sample and its free take 0.4 µs
//! with one, and 5.5 µs this way, where the cheapest system call takes 0.16 µs: by calculation 1 % of a core at 1
//! GB/s of allocations). But truncating the file, as logrotate's `copytruncate` does, would kill the process: a store
//! to a page that is gone is a SIGBUS, as is one to a hole on a full disk. With `pwrite` both are errors, and a file
//! that was truncated is made whole again with the next sample.
//!
//! Rows and records are copied as they change. The header's sums may be older, by [`HEADER_NANOS`]; but not what a
//! reader needs to find the rows, nor the moment of the peak that they refer to.

use super::super::kept_file::{KeptFile, OpenFile, keeping_errno};
use super::{HEADER_USED, HEADER_WORDS, Ledger, LedgerSection, RowId, file_length};
use crate::clock;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How old the sums in the header may be.
const HEADER_NANOS: u64 = 100_000_000;

/// The pause before another try, after a file could not be made whole (the disk is full).
const PAUSE_NANOS: u64 = 1_000_000_000;

pub(super) struct Mirror {
    file: KeptFile,
    /// Whether the header has changed in a way that a reader must see at once.
    is_header_due: AtomicBool,
    /// When the header is due in any case, on the monotonic clock.
    next_header: AtomicU64,
    /// When to try again to make the file whole, on the monotonic clock.
    next_try: AtomicU64,
}

impl Mirror {
    pub(super) const fn none() -> Self {
        Self {
            file: KeptFile::none(),
            is_header_due: AtomicBool::new(false),
            next_header: AtomicU64::new(0),
            next_try: AtomicU64::new(0),
        }
    }

    /// Makes the header be copied with the next rows.
    pub(super) fn header_is_due(&self) {
        self.is_header_due.store(true, Ordering::Release);
    }

    fn takes_header(&self, now: u64) -> bool {
        let is_due = self.is_header_due.swap(false, Ordering::AcqRel);
        let is_due = is_due || now >= self.next_header.load(Ordering::Relaxed);
        if is_due {
            self.next_header.store(now.saturating_add(HEADER_NANOS), Ordering::Relaxed);
        }
        is_due
    }

    pub(super) fn forget(&self) {
        self.file.forget();
    }
}

impl Ledger {
    /// Copies every change to `file`, which is new, from now on.
    pub(super) fn mirror_to(&self, file: &File) -> io::Result<()> {
        self.make_whole(OpenFile::of(file))?;
        self.mirror.file.keep(file.try_clone()?)
    }

    /// Copies rows that have changed, and the header if it is due `now`. Does not allocate; `errno` stays as it was.
    pub(super) fn publish_rows<const N: usize>(&self, now: u64, rows: [(LedgerSection, RowId); N]) {
        self.publish_with(|file| {
            for (section, row) in rows {
                let start = self.place(section, row);
                file.write(self.words, start, start + section.row_words())?;
            }
            if self.mirror.takes_header(now) { file.write(self.words, 0, HEADER_USED) } else { Ok(()) }
        });
    }

    /// Copies new words.
    pub(super) fn publish_words(&self, start: usize, end: usize) {
        self.publish_with(|file| file.write(self.words, start, end));
    }

    /// Copies the header.
    pub(in super::super) fn publish_header(&self) {
        self.publish_with(|file| file.write(self.words, 0, HEADER_USED));
    }

    /// Copies everything.
    pub(super) fn publish_all(&self) {
        self.publish_with(|file| self.copy_to(file));
    }

    #[inline]
    fn publish_with(&self, write: impl FnOnce(OpenFile) -> io::Result<()>) {
        keeping_errno(|| {
            let Some(file) = self.mirror.file.open() else { return };
            let written = if file.length < self.file_length() { self.restore(file) } else { write(file) };
            // There is no caller to report it to, and a full disk is no reason for the program to stop.
            drop(written);
        });
    }

    /// Makes a file that was truncated whole again.
    #[cold]
    fn restore(&self, file: OpenFile) -> io::Result<()> {
        let now = clock::monotonic_nanos();
        if now < self.mirror.next_try.load(Ordering::Relaxed) {
            return Ok(());
        }
        let restored = self.make_whole(file);
        let next_try = if restored.is_ok() { 0 } else { now + PAUSE_NANOS };
        self.mirror.next_try.store(next_try, Ordering::Relaxed);
        restored
    }

    /// Sets the length first: threads that find it right write their changes.
    fn make_whole(&self, file: OpenFile) -> io::Result<()> {
        file.reserve(self.file_length())?;
        self.copy_to(file)
    }

    /// Copies the used parts to `file`.
    pub(in super::super) fn copy_to(&self, file: OpenFile) -> io::Result<()> {
        // The header first, for its counts: a reader that finds less than they say skips what is missing.
        file.write(self.words, 0, HEADER_WORDS)?;
        for section in LedgerSection::ALL {
            let (start, used) = self.extent(section);
            file.write(self.words, start, start + used)?;
        }
        Ok(())
    }

    /// Returns the length of a file with this ledger.
    pub(in super::super) fn file_length(&self) -> u64 {
        file_length(self.words.len())
    }
}
