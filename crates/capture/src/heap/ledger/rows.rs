//! Rows of counters: sites and ends.

use super::super::interval::{Weight, mix};
use super::{EMPTY_STACK, Field, Ledger, LedgerSection, RecordId};

/// Where in its section a row starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in super::super) struct RowId(pub(in super::super) u32);

/// What identifies a site: a stack, a context, and objects of about one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct SiteKey {
    pub(in super::super) stack: RecordId,
    pub(in super::super) context: RecordId,
    /// The size of the object at hand. Other sizes of the same class share the site.
    pub(in super::super) size: usize,
}

/// What identifies an end: the site, the stack of the free and the class of the lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct EndKey {
    pub(in super::super) site: RowId,
    pub(in super::super) stack: RecordId,
    pub(in super::super) class: u8,
}

/// The words of a site. The key is complete when the first is not 0.
pub(super) mod site {
    pub(in super::super) const STACK_AND_CONTEXT: usize = 0;
    pub(in super::super) const SIZE: usize = 1;
    pub(in super::super) const ALLOCATED_OBJECTS: usize = 2;
    pub(in super::super) const ALLOCATED_BYTES: usize = 3;
    pub(in super::super) const LIVE_OBJECTS: usize = 4;
    pub(in super::super) const LIVE_BYTES: usize = 5;
    pub(in super::super) const PEAK_OBJECTS: usize = 6;
    pub(in super::super) const PEAK_BYTES: usize = 7;
    pub(in super::super) const PEAK_EPOCH: usize = 8;
}
pub(super) const SITE_KEY_WORDS: usize = 2;
pub(super) const SITE_WORDS: usize = 10;

/// The words of an end. The key is complete when the first is not 0.
pub(super) mod end {
    pub(in super::super) const SITE_AND_STACK: usize = 0;
    pub(in super::super) const CLASS: usize = 1;
    pub(in super::super) const OBJECTS: usize = 2;
    pub(in super::super) const BYTES: usize = 3;
}
pub(super) const END_KEY_WORDS: usize = 2;
pub(super) const END_WORDS: usize = 4;

/// An object was allocated.
pub(super) struct Allocated;
/// An object was freed.
pub(super) struct Freed;

/// How a site counts an event.
pub(super) trait SiteEvent {
    fn count(ledger: &Ledger, row: usize, weight: Weight);
}

impl SiteEvent for Allocated {
    fn count(ledger: &Ledger, row: usize, weight: Weight) {
        ledger.add(row + site::ALLOCATED_OBJECTS, weight.objects);
        ledger.add(row + site::ALLOCATED_BYTES, weight.bytes);
        ledger.add(row + site::LIVE_OBJECTS, weight.objects);
        ledger.add(row + site::LIVE_BYTES, weight.bytes);
    }
}

impl SiteEvent for Freed {
    fn count(ledger: &Ledger, row: usize, weight: Weight) {
        ledger.add(row + site::LIVE_OBJECTS, weight.objects.wrapping_neg());
        ledger.add(row + site::LIVE_BYTES, weight.bytes.wrapping_neg());
    }
}

/// Returns the class of a size: sizes up to 256 have one each, larger ones share it with sizes up to an eighth
/// larger.
pub(super) fn size_class(size: usize) -> u64 {
    if size <= 256 {
        return size as u64;
    }
    let power = size.ilog2();
    256 + u64::from(power) * 8 + (size as u64 >> (power - 3) & 7)
}

/// Returns how many rows there are beyond the requested ones, for samples that have to do without labels or stack.
pub(super) const fn reserve(sites: usize) -> usize {
    sites / 8
}

impl Ledger {
    /// Returns the row of a site. Where there is no room, that of its stack and size with no labels; where there is
    /// none for that either, that of its size: sums stay right, whatever the labels are. `None` when there is not
    /// even that.
    pub(in super::super) fn site(&self, key: SiteKey) -> Option<RowId> {
        self.site_sparing(key, self.reserve).or_else(|| self.merged_site(key))
    }

    #[cold]
    fn merged_site(&self, key: SiteKey) -> Option<RowId> {
        let without_labels = SiteKey { context: RecordId::NONE, ..key };
        let without_stack = SiteKey { stack: EMPTY_STACK, ..without_labels };
        let found = self.site_sparing(without_labels, self.reserve / 2);
        let found = found.or_else(|| self.site_sparing(without_stack, 0))?;
        self.count(Field::Merged, 1);
        Some(found)
    }

    fn site_sparing(&self, key: SiteKey, rows: usize) -> Option<RowId> {
        let first = u64::from(key.stack.0) << 32 | u64::from(key.context.0);
        let class = size_class(key.size);
        let size_of_row = |row: usize| self.load(row + site::SIZE) as usize;
        let is_same = |row: usize| {
            self.load(row + site::STACK_AND_CONTEXT) == first && size_class(size_of_row(row)) == class
        };
        let spared = rows * SITE_WORDS;
        self.row(LedgerSection::Sites, spared, mix(first ^ mix(class)), [first, key.size as u64], is_same)
    }

    /// Counts how an object of a site ended; returns in which row, if there was room for one.
    pub(in super::super) fn ended(&self, key: EndKey, weight: Weight) -> Option<RowId> {
        let first = u64::from(key.site.0) << 32 | u64::from(key.stack.0);
        let class = u64::from(key.class);
        let is_same = |row: usize| {
            self.load(row + end::SITE_AND_STACK) == first && self.load(row + end::CLASS) == class
        };
        let found = self.row(LedgerSection::Ends, 0, mix(first ^ mix(class + 1)), [first, class], is_same);
        match found.map(|row| self.place(LedgerSection::Ends, row)) {
            Some(row) => {
                self.add(row + end::OBJECTS, weight.objects);
                self.add(row + end::BYTES, weight.bytes);
            }
            None => {
                self.count(Field::LostEnds, 1);
            }
        }
        found
    }

    pub(super) fn count_site<E: SiteEvent>(&self, row: RowId, _event: E, weight: Weight) {
        E::count(self, self.place(LedgerSection::Sites, row), weight);
    }

    /// Before a site changes, keeps what it had at the highest moment so far, unless it has changed since. So the
    /// live set of that moment is known without ever copying it. Returns whether it kept anything.
    pub(super) fn keep_peak(&self, row: RowId) -> bool {
        let row = self.place(LedgerSection::Sites, row);
        let epoch = self.get(Field::PeakEpoch);
        let is_first_change = self.load(row + site::PEAK_EPOCH) != epoch;
        if is_first_change {
            self.store(row + site::PEAK_OBJECTS, self.load(row + site::LIVE_OBJECTS));
            self.store(row + site::PEAK_BYTES, self.load(row + site::LIVE_BYTES));
            self.store(row + site::PEAK_EPOCH, epoch);
        }
        is_first_change
    }

    /// Returns where the rows of a section start, in words of the ledger.
    pub(super) fn rows_of(&self, section: LedgerSection) -> impl Iterator<Item = usize> + use<> {
        let (start, used) = (self.load(section.entry()) as usize, self.load(section.entry() + 2) as usize);
        let used = used.min(self.load(section.entry() + 1) as usize);
        (0..used / section.row_words()).map(move |row| start + row * section.row_words())
    }

    pub(super) fn clear_row(&self, row: usize, from: usize, to: usize) {
        for word in row + from..row + to {
            self.store(word, 0);
        }
    }

    /// Returns where a row starts, in words of the ledger.
    pub(super) fn place(&self, section: LedgerSection, row: RowId) -> usize {
        self.load(section.entry()) as usize + row.0 as usize
    }

    fn row(
        &self,
        section: LedgerSection,
        spared: usize,
        hash: u64,
        [first, second]: [u64; 2],
        is_same: impl Fn(usize) -> bool,
    ) -> Option<RowId> {
        let start = self.load(section.entry()) as usize;
        let index = if section == LedgerSection::Sites { &self.sites } else { &self.ends };
        let make = || {
            let id = self.claim(section, section.row_words(), spared)?;
            let row = start + id as usize;
            self.store(row + 1, second);
            self.store(row, first);
            Some(id)
        };
        index.find_or_insert(hash, |id| is_same(start + id as usize), make).map(RowId)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::interval::Weight;
    use super::super::Capacity;
    use super::super::image::LedgerImage;
    use super::*;

    /// With a label that has another value for every request.
    #[test]
    fn sums_stay_right_when_there_are_more_sites_than_rows() {
        let ledger = Ledger::new(Capacity { stack_words: 8192, sites: 64 }, None).expect("memory");
        let weight = Weight::of(100, 1);
        for number in 0..5000_u32 {
            let stack = ledger.stack(&[u64::from(number % 3 + 7)]);
            let key = SiteKey { stack, context: RecordId(1 + number), size: 100 };
            let site = ledger.site(key).expect("a row, whatever the labels are");
            ledger.allocated(site, weight, 0);
        }
        let image = LedgerImage::read(ledger.words()).expect("sound");
        assert_eq!(image.sites.iter().map(|site| site.live.bytes).sum::<i64>(), 500_000);
        let labelled = image.sites.iter().filter(|site| site.context != RecordId::NONE).count();
        assert!((64..200).contains(&labelled), "as many as were requested, and a page's rest: {labelled}");
        assert_eq!(image.sites.len(), labelled + 3, "one for each stack");
        let stacks: Vec<&[u64]> = image.sites.iter().map(|site| image.stack(site.stack)).collect();
        assert!(stacks.iter().all(|stack| !stack.is_empty()), "stacks go last");
        assert_eq!(ledger.get(Field::Merged), 5000 - labelled as u64);
        assert_eq!(ledger.get(Field::Lost), 0);
    }

    #[test]
    fn size_classes_are_an_eighth_wide_and_ordered() {
        for size in 1..100_000usize {
            assert!(size_class(size) <= size_class(size + 1));
            if size > 256 {
                assert_ne!(size_class(size), size_class(size + size / 7 + 1), "{size}");
            }
        }
        assert_eq!(size_class(1 << 20), size_class((1 << 20) + (1 << 16)));
        assert_ne!(size_class(256), size_class(257));
    }
}
