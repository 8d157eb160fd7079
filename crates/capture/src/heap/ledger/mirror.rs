//! The mirror: a file that has every change of a ledger, and survives the process however it ends.
//!
//! What changed is copied by `pwrite`. A shared mapping of the file would cost less (a sample and its free take 0.4 µs
//! with one, and 5.5 µs so, where the cheapest system call takes 0.16 µs: by calculation 1 % of a core at 1 GB/s of allocations). But
//! whoever truncates the file, as logrotate's `copytruncate` does, would end the process: a store to a page that is gone
//! is a SIGBUS, as is one to a hole on a full disk. Here both are errors, and a file that was truncated is made whole
//! again with the next sample.
//!
//! Rows and records are copied as they change. The header's sums may be older, by [`HEADER_NANOS`]; not what a reader
//! needs to find the rows, nor the moment of the peak that they refer to.

use super::super::kept_file::{KeptFile, OpenFile, keeping_errno};
use super::{HEADER_USED, HEADER_WORDS, Ledger, RowId, Section, file_length};
use crate::clock;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How old the sums in the header may be.
const HEADER_NANOS: u64 = 100_000_000;

/// After a file could not be made whole (the disk is full), it is not tried at once again.
const PAUSE_NANOS: u64 = 1_000_000_000;

pub(super) struct Mirror {
    file: KeptFile,
    /// Whether the header has changed in a way that a reader must know at once.
    is_header_due: AtomicBool,
    /// The monotonic clock when it is due in any case.
    next_header: AtomicU64,
    /// The monotonic clock when it is tried again to make the file whole.
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

    /// The header is copied with the next rows.
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
    /// From now on `file`, which is new, has every change.
    pub(super) fn mirror_to(&self, file: &File) -> io::Result<()> {
        self.make_whole(OpenFile::of(file))?;
        self.mirror.file.keep(file.try_clone()?)
    }

    /// Copies rows that have changed, and the header if it is due `now`. Does not allocate; `errno` stays as it was.
    pub(super) fn publish_rows<const N: usize>(&self, now: u64, rows: [(Section, RowId); N]) {
        self.publish_with(|file| {
            for (section, row) in rows {
                let start = self.place(section, row);
                file.write(self.words, start, start + section.row_words())?;
            }
            if self.mirror.takes_header(now) { file.write(self.words, 0, HEADER_USED) } else { Ok(()) }
        });
    }

    /// Copies words that are new.
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
            // Neither is there anybody to be told, nor is a full disk a reason for the program to stop.
            drop(written);
        });
    }

    /// Somebody has truncated the file.
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

    /// First its length: whoever finds that right writes what it changes.
    fn make_whole(&self, file: OpenFile) -> io::Result<()> {
        file.reserve(self.file_length())?;
        self.copy_to(file)
    }

    /// Copies the used parts to `file`.
    pub(in super::super) fn copy_to(&self, file: OpenFile) -> io::Result<()> {
        // The header first, for its counts: a reader that finds less than they say skips what is missing.
        file.write(self.words, 0, HEADER_WORDS)?;
        for section in Section::ALL {
            let (start, used) = self.extent(section);
            file.write(self.words, start, start + used)?;
        }
        Ok(())
    }

    /// The length of a file with this ledger.
    pub(in super::super) fn file_length(&self) -> u64 {
        file_length(self.words.len())
    }
}
