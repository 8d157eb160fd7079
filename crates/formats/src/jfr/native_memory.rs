//! Native memory: what was allocated, and what of it was never freed.

use flamelet_profile::Budget;
use rustc_hash::FxHashMap as HashMap;

use crate::assembly::Assembly;

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeBlock {
    pub(super) address: i64,
    pub(super) time: u64,
    /// The row of its stack.
    pub(super) row: u32,
    pub(super) size: i64,
}

/// The allocations and frees of a recording. They are matched at the end, since events of several threads are not in the
/// order of time.
#[derive(Default)]
pub(super) struct NativeMemory {
    blocks: Vec<NativeBlock>,
    /// The address and the time of each free.
    frees: Vec<(i64, u64)>,
}

impl NativeMemory {
    pub(super) fn allocated(&mut self, block: NativeBlock, budget: &Budget) {
        budget.push(&mut self.blocks, block);
    }

    pub(super) fn freed(&mut self, address: i64, time: u64, budget: &Budget) {
        budget.push(&mut self.frees, (address, time));
    }

    /// Adds what was allocated, and what is left if frees were recorded.
    pub(super) fn finish(mut self, assembly: &mut Assembly) {
        if self.blocks.is_empty() {
            return;
        }
        let kinds = [("malloc_objects", "count"), ("malloc_space", "bytes")];
        let [objects, space] = kinds.map(|(kind, unit)| assembly.column(kind, unit));
        for block in &self.blocks {
            assembly.add(block.row, objects, 1);
            assembly.add(block.row, space, block.size);
        }
        if self.frees.is_empty() {
            return;
        }
        let kinds = [("inuse_objects", "count"), ("inuse_space", "bytes")];
        let [objects, space] = kinds.map(|(kind, unit)| assembly.column(kind, unit));
        for block in self.live(assembly.budget()) {
            assembly.add(block.row, objects, 1);
            assembly.add(block.row, space, block.size);
        }
    }

    /// Returns the blocks that were not freed after they were allocated.
    fn live(&mut self, budget: &Budget) -> Vec<NativeBlock> {
        const ENTRY: usize = size_of::<(i64, NativeBlock)>() * 2;
        self.blocks.sort_by_key(|block| block.time);
        self.frees.sort_by_key(|free| free.1);
        if !budget.has_room(self.blocks.len() * ENTRY) {
            return Vec::new();
        }
        let mut live: HashMap<i64, NativeBlock> = HashMap::default();
        let mut frees = self.frees.iter().peekable();
        for block in &self.blocks {
            while let Some((address, _)) = frees.next_if(|free| free.1 < block.time) {
                live.remove(address);
            }
            live.insert(block.address, *block);
        }
        for (address, _) in frees {
            live.remove(address);
        }
        live.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::LabelSetId;

    #[test]
    fn what_is_freed_later_is_not_in_use() {
        let budget = Budget::new(crate::Limits::default());
        let mut assembly = Assembly::new(false, &budget);
        let rows = ["a", "b"].map(|name| {
            let frame = assembly.frame(name, "", 0);
            assembly.row(&[frame], LabelSetId::EMPTY)
        });
        let mut native = NativeMemory::default();
        let mut allocated = |address, time, row: usize, size| {
            native.allocated(NativeBlock { address, time, row: rows[row], size }, &budget);
        };
        // The second block has the address of the first one, after that was freed.
        allocated(0x10, 30, 1, 200);
        allocated(0x10, 10, 0, 100);
        allocated(0x20, 11, 0, 50);
        native.freed(0x10, 20, &budget);
        native.freed(0x20, 40, &budget);
        native.finish(&mut assembly);
        let profile = assembly.finish().expect("a profile");
        let total = |kind: &str| {
            let kinds = profile.sample_types().iter();
            let at = kinds.map(|value| profile.string(value.kind)).position(|known| known == kind);
            profile.total(at.expect("a column"))
        };
        assert_eq!((total("malloc_objects"), total("malloc_space")), (3, 350));
        assert_eq!((total("inuse_objects"), total("inuse_space")), (1, 200));
    }
}
