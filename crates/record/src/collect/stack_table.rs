//! Stores each stack once: addresses become locations, and a list of locations becomes a number.

use flamelet_profile::{InternedLists, KERNEL_START};
use flamelet_unwind::{Era, Module, Modules};
use rustc_hash::FxHashMap;

use crate::generated::is_generated;

/// The number of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StackNumber(pub(crate) u32);

/// An index into [`StackTable::mappings`].
pub(crate) type MappingNumber = u32;

/// A file whose code was seen, at the address where it was first seen. If another process has it elsewhere, the
/// addresses are shifted, so that the same code is the same location.
#[derive(Clone, Debug)]
pub(crate) struct SeenMapping {
    pub(crate) module: Module,
    /// The process, for anonymous memory, which belongs to that process alone.
    pub(crate) pid: Option<u32>,
}

/// Code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeenLocation {
    /// `None` for the kernel, and for addresses with no known mapping.
    pub(crate) mapping: Option<MappingNumber>,
    pub(crate) address: u64,
}

/// The identity of a mapping: name, build id, offset in the file, and for anonymous memory the process and the
/// address.
type MappingKey = (String, Box<[u8]>, u64, Option<(u32, u64)>);

/// All stacks that were seen.
#[derive(Default)]
pub(crate) struct StackTable {
    pub(crate) mappings: Vec<SeenMapping>,
    by_module: FxHashMap<MappingKey, MappingNumber>,
    pub(crate) locations: Vec<SeenLocation>,
    by_location: FxHashMap<SeenLocation, u32>,
    /// Stacks as locations, leaf first.
    lists: InternedLists<u32>,
    /// Stacks as they arrived: the era, then addresses. A stack that is found here needs no lookup by frame.
    raw: InternedLists<u64>,
    raw_numbers: Vec<StackNumber>,
    key: Vec<u64>,
    list: Vec<u32>,
}

/// Returns whether an address is in the upper half, which is the kernel's.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >= KERNEL_START
}

impl StackTable {
    /// Returns the number of the stack with these frames, leaf first, in this era of `pid`.
    pub(crate) fn intern(&mut self, pid: u32, era: Era, modules: &Modules, frames: &[u64]) -> StackNumber {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.push(u64::from(era.number()));
        key.extend_from_slice(frames);
        let raw = self.raw.intern(&key) as usize;
        self.key = key;
        if raw == self.raw_numbers.len() {
            let mut list = std::mem::take(&mut self.list);
            list.clear();
            list.extend(frames.iter().map(|&address| self.location(pid, modules, address)));
            self.raw_numbers.push(StackNumber(self.lists.intern(&list)));
            self.list = list;
        }
        self.raw_numbers[raw]
    }

    /// Returns the locations of a stack, leaf first.
    pub(crate) fn list(&self, stack: StackNumber) -> &[u32] {
        self.lists.get(stack.0)
    }

    fn location(&mut self, pid: u32, modules: &Modules, address: u64) -> u32 {
        let module = if is_kernel(address) { None } else { modules.find(address) };
        let location = match module {
            None => SeenLocation { mapping: None, address },
            Some(module) => {
                let mapping = self.mapping(pid, module);
                let seen = &self.mappings[mapping as usize].module;
                let address = address.wrapping_sub(module.start).wrapping_add(seen.start);
                SeenLocation { mapping: Some(mapping), address }
            }
        };
        *self.by_location.entry(location).or_insert_with(|| {
            self.locations.push(location);
            (self.locations.len() - 1) as u32
        })
    }

    fn mapping(&mut self, pid: u32, module: &Module) -> MappingNumber {
        let is_file =
            module.name.starts_with('/') && !is_generated(&module.name) || &*module.name == "[vdso]";
        let place = (!is_file).then_some((pid, module.start));
        let key = (module.name.to_string(), module.build_id.as_ref().into(), module.file_offset, place);
        *self.by_module.entry(key).or_insert_with(|| {
            self.mappings.push(SeenMapping { module: module.clone(), pid: place.map(|(pid, _)| pid) });
            (self.mappings.len() - 1) as u32
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_unwind::{AddressSpace, Eras};

    fn module(start: u64, name: &str) -> Module {
        Module {
            start,
            end: start + 0x1000,
            file_offset: 0x1000,
            bias: start - 0x1000,
            name: name.into(),
            build_id: [1, 2].into(),
            table: None,
        }
    }

    fn two_eras() -> [Era; 2] {
        let mut eras = Eras::default();
        [(); 2].map(|()| AddressSpace::new(Modules::new(), &mut eras).era())
    }

    #[test]
    fn the_same_code_in_two_processes_is_one_location() {
        let mut stacks = StackTable::default();
        let (mut here, mut there) = (Modules::new(), Modules::new());
        here.insert(module(0x10000, "/bin/a"));
        there.insert(module(0x50000, "/bin/a"));
        let [one, two] = two_eras();
        let first = stacks.intern(1, one, &here, &[0x10010, 0x10020]);
        assert_eq!(stacks.intern(2, two, &there, &[0x50010, 0x50020]), first);
        assert_ne!(stacks.intern(2, two, &there, &[0x10010]), first);
        assert_eq!((stacks.mappings.len(), stacks.locations.len(), stacks.lists.len()), (1, 3, 2));
    }

    #[test]
    fn generated_code_belongs_to_its_process() {
        let mut stacks = StackTable::default();
        let mut modules = Modules::new();
        modules.insert(module(0x10000, "//anon"));
        let [one, two] = two_eras();
        let first = stacks.intern(1, one, &modules, &[0x10010]);
        assert_ne!(stacks.intern(2, two, &modules, &[0x10010]), first);
    }
}
