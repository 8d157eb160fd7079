//! The compact table of one module: sorted rows, found through buckets of 256 bytes of text.

use crate::Architecture;
use crate::rule::{Base, Rule, SideCfa, SideRule, TableRow};
use rustc_hash::FxHashMap;

const BUCKET_SHIFT: u32 = 8;
/// Gaps up to this size between functions are alignment, not code without unwind information.
const PADDING: u64 = 15;

/// How to unwind every function of one module, by its address in the file (not in the process).
#[derive(Debug)]
pub struct Table {
    architecture: Architecture,
    /// The first address of the first bucket.
    start: u64,
    /// For each bucket, the first row in it; one more at the end.
    buckets: Box<[u32]>,
    /// Sorted by address. The row before a bucket's first one holds at the start of the bucket.
    rows: Box<[TableRow]>,
    side: Box<[SideRule]>,
    largest_frame: u64,
}

impl Table {
    /// Returns the size of the largest frame, in bytes. Frames that are found by the frame pointer do not count: their
    /// size is not known.
    pub fn largest_frame(&self) -> u64 {
        self.largest_frame
    }

    /// Returns the machine that the code is for.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns how many rows there are.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns how many bytes the table occupies.
    pub fn byte_size(&self) -> usize {
        size_of_val(&*self.buckets) + size_of_val(&*self.rows) + size_of_val(&*self.side)
    }

    /// Returns the rule that holds at `address`. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn lookup(&self, address: u64) -> Rule {
        let Some(offset) = address.checked_sub(self.start) else { return Rule::Unknown };
        let bucket = (offset >> BUCKET_SHIFT) as usize;
        let Some(&[first, end]) = self.buckets.get(bucket..).and_then(|rest| rest.first_chunk::<2>()) else {
            return Rule::Unknown;
        };
        let (first, end) = (first as usize, end as usize);
        let wanted = offset as u32 & 0xff;
        let Some(rows) = self.rows.get(first..end) else { return Rule::Unknown };
        for row in rows.iter().rev() {
            if row.pc_in_bucket() <= wanted {
                return row.rule();
            }
        }
        first.checked_sub(1).and_then(|before| self.rows.get(before)).map_or(Rule::Unknown, |row| row.rule())
    }

    /// Returns the rule at `index` of the side table.
    #[inline]
    pub(crate) fn side_rule(&self, index: u16) -> Option<&SideRule> {
        self.side.get(usize::from(index))
    }
}

/// Collects the rules of functions, in any order, into a [`Table`].
pub(crate) struct TableBuilder {
    architecture: Architecture,
    functions: Vec<FunctionRules>,
    rules: Vec<(u32, Rule)>,
    side: Vec<SideRule>,
    side_index: FxHashMap<SideRule, u16>,
}

struct FunctionRules {
    start: u64,
    end: u64,
    first_rule: u32,
    rule_count: u32,
}

impl TableBuilder {
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            functions: Vec::new(),
            rules: Vec::new(),
            side: Vec::new(),
            side_index: FxHashMap::default(),
        }
    }

    pub(crate) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Stores a rule in the side table; returns `Unknown` when that is full.
    pub(crate) fn side(&mut self, rule: SideRule) -> Rule {
        if let Some(&index) = self.side_index.get(&rule) {
            return Rule::Side(index);
        }
        let Ok(index) = u16::try_from(self.side.len()) else { return Rule::Unknown };
        self.side.push(rule);
        self.side_index.insert(rule, index);
        Rule::Side(index)
    }

    /// Starts the function at `start..end`; [`TableBuilder::rule`] adds its rules.
    pub(crate) fn function(&mut self, start: u64, end: u64) {
        let first_rule = self.rules.len() as u32;
        self.functions.push(FunctionRules { start, end, first_rule, rule_count: 0 });
    }

    /// Adds `rule`, which holds from `offset` bytes after the start of the current function on.
    pub(crate) fn rule(&mut self, offset: u32, rule: Rule) {
        let Some(function) = self.functions.last_mut() else { return };
        if function.rule_count > 0
            && let Some(last) = self.rules.last_mut()
        {
            if last.1 == rule {
                return;
            }
            if last.0 == offset {
                last.1 = rule;
                return;
            }
        }
        self.rules.push((offset, rule));
        function.rule_count += 1;
    }

    /// Packs everything. Returns `None` when there was no function at all.
    pub(crate) fn finish(mut self) -> Option<Table> {
        self.functions.retain(|function| function.start < function.end);
        self.functions.sort_unstable_by_key(|function| function.start);
        let start = self.functions.first()?.start >> BUCKET_SHIFT << BUCKET_SHIFT;
        let end = self.functions.iter().map(|function| function.end).max()?;
        let mut packer = Packer::new(start, end, self.rules.len())?;
        packer.push(start, Rule::Unknown);
        let mut covered = start;
        for function in &self.functions {
            if function.start.saturating_sub(covered) > PADDING {
                packer.push(covered, Rule::Unknown);
            }
            let first = function.first_rule as usize;
            for &(offset, rule) in &self.rules[first..first + function.rule_count as usize] {
                packer.push(function.start + u64::from(offset), rule);
            }
            covered = covered.max(function.end);
        }
        packer.push(covered, Rule::Unknown);
        let (buckets, rows) = packer.finish();
        let largest_frame = self.largest_frame();
        let side = self.side.into();
        Some(Table { architecture: self.architecture, start, buckets, rows, side, largest_frame })
    }

    fn largest_frame(&self) -> u64 {
        let size = |&(_, rule): &(u32, Rule)| match rule {
            Rule::Frame { base: Base::StackPointer, offset, .. } => u64::from(offset),
            _ => 0,
        };
        let side_size = |rule: &SideRule| match rule.cfa {
            SideCfa::Offset(Base::StackPointer, offset) => u64::try_from(offset).unwrap_or(0),
            _ => 0,
        };
        self.rules.iter().map(size).chain(self.side.iter().map(side_size)).max().unwrap_or(0)
    }
}

/// Appends rows in the order of their addresses and notes where each bucket starts.
struct Packer {
    start: u64,
    bucket_count: usize,
    buckets: Vec<u32>,
    rows: Vec<TableRow>,
    last: Option<(u64, Rule)>,
}

/// More text than any program has; a corrupt file must not cause an allocation of that size.
const MAX_TEXT: u64 = 4 << 30;

impl Packer {
    fn new(start: u64, end: u64, rule_count: usize) -> Option<Self> {
        if end - start > MAX_TEXT {
            return None;
        }
        let bucket_count = ((end - start) >> BUCKET_SHIFT) as usize + 1;
        let (buckets, rows) = (Vec::with_capacity(bucket_count + 1), Vec::with_capacity(rule_count));
        Some(Self { start, bucket_count, buckets, rows, last: None })
    }

    fn push(&mut self, address: u64, rule: Rule) {
        if let Some((last_address, last_rule)) = self.last {
            // Overlapping functions (corrupt, or folded by the linker): the earlier one wins.
            if last_rule == rule || address < last_address {
                return;
            }
            if address == last_address {
                self.rows.pop();
            }
        }
        let offset = address - self.start;
        let bucket = (offset >> BUCKET_SHIFT) as usize;
        if bucket >= self.bucket_count {
            return;
        }
        while self.buckets.len() <= bucket {
            self.buckets.push(self.rows.len() as u32);
        }
        self.rows.push(TableRow::pack(offset as u8, rule));
        self.last = Some((address, rule));
    }

    fn finish(mut self) -> (Box<[u32]>, Box<[TableRow]>) {
        let end = self.rows.len() as u32;
        self.buckets.resize(self.bucket_count + 1, end);
        (self.buckets.into(), self.rows.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Saved;

    fn frame(offset: u32) -> Rule {
        Rule::Frame { base: Base::StackPointer, offset, saved: 0 }
    }

    fn table() -> Table {
        let mut builder = TableBuilder::new(Architecture::X86_64);
        builder.function(0x2000, 0x2500);
        builder.rule(0, frame(8));
        builder.rule(1, frame(16));
        builder.rule(0x4f0, frame(8));
        builder.function(0x1010, 0x1020);
        builder.rule(0, frame(8));
        builder.function(0x1020, 0x1030);
        builder.rule(0, frame(8));
        builder.finish().expect("three functions")
    }

    #[test]
    fn rules_hold_from_their_row_to_the_next_across_buckets() {
        let table = table();
        assert_eq!(table.lookup(0x1010), frame(8));
        assert_eq!(table.lookup(0x102f), frame(8));
        assert_eq!(table.lookup(0x2000), frame(8));
        assert_eq!(table.lookup(0x2001), frame(16));
        assert_eq!(table.lookup(0x2345), frame(16));
        assert_eq!(table.lookup(0x24ef), frame(16));
        assert_eq!(table.lookup(0x24f0), frame(8));
    }

    #[test]
    fn outside_of_functions_nothing_is_known() {
        let table = table();
        for address in [0, 0xfff, 0x1000, 0x100f, 0x1030, 0x1fff, 0x2500, 0x2600, u64::MAX] {
            assert_eq!(table.lookup(address), Rule::Unknown, "{address:#x}");
        }
    }

    #[test]
    fn the_largest_frame_is_known() {
        assert_eq!(table().largest_frame(), 16);
        let mut builder = TableBuilder::new(Architecture::X86_64);
        builder.function(0x1000, 0x1100);
        builder.rule(0, frame(122_880));
        builder.rule(8, Rule::Frame { base: Base::FramePointer, offset: 400_000, saved: 0 });
        let (frame_pointer, return_address) = (Saved::Same, Saved::AtCfa(-8));
        let cfa = SideCfa::Offset(Base::StackPointer, 1 << 20);
        let larger = builder.side(SideRule { cfa, frame_pointer, return_address });
        builder.rule(16, larger);
        let cfa = SideCfa::Deref(Base::StackPointer, 2 << 20);
        let elsewhere = builder.side(SideRule { cfa, frame_pointer, return_address });
        builder.rule(24, elsewhere);
        assert_eq!(builder.finish().expect("a function").largest_frame(), 1 << 20);
    }

    #[test]
    fn equal_neighbours_share_a_row_and_gaps_cost_one() {
        // unknown, 0x1010, gap, 0x2000, 0x2001, 0x24f0, end
        assert_eq!(table().row_count(), 7);
    }
}
