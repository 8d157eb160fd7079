//! Finding records and rows by their hash: a table of numbers that only grows.

use super::memory;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A table with open addressing, from which nothing is ever removed, so that a lookup needs no lock. A cell holds 32
/// bits of the hash and the number that is looked for.
pub(crate) struct Index {
    cells: &'static [AtomicU64],
}

/// The most cells that a lookup visits: beyond that the table is full, for this hash.
const LONGEST_PROBE: usize = 512;

impl Index {
    pub(crate) fn new(cells: usize) -> io::Result<Self> {
        Ok(Self { cells: memory::private_words(cells.next_power_of_two())? })
    }

    /// Returns the number stored for `hash` that `is_same` accepts; otherwise the one that `make` returns, which is
    /// then stored. `None` when the table is full or `make` returns nothing.
    ///
    /// When two threads make the same one at the same time, one loses: what it made stays unused.
    pub(crate) fn find_or_insert(
        &self,
        hash: u64,
        is_same: impl Fn(u32) -> bool,
        make: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let tag = hash & !0xffff_ffff;
        let mask = self.cells.len() - 1;
        let (mut make, mut made) = (Some(make), None);
        let mut at = hash as usize & mask;
        for _ in 0..LONGEST_PROBE.min(self.cells.len()) {
            let cell = &self.cells[at];
            let mut held = cell.load(Ordering::Acquire);
            if held == 0 {
                let number = match made {
                    Some(number) => number,
                    None => make.take().and_then(|make| make())?,
                };
                made = Some(number);
                match cell.compare_exchange(0, tag | u64::from(number), Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Some(number),
                    Err(other) => held = other,
                }
            }
            if held & !0xffff_ffff == tag && is_same(held as u32) {
                return Some(held as u32);
            }
            at = (at + 1) & mask;
        }
        None
    }
}
