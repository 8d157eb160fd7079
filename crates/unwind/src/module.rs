//! Tables placed in an address space.

use crate::arch::Architecture;
use crate::rule::Rule;
use crate::rule_cache::RuleCache;
use crate::table::Table;
use std::sync::Arc;

/// An executable range of a process, the file it comes from, and how to unwind it.
#[derive(Clone, Debug)]
pub struct Module {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The offset in the file of the byte at `start`.
    pub file_offset: u64,
    /// What is added to an address of the file to get one of the process (modulo 2^64).
    pub bias: u64,
    /// The file, or a name in brackets such as `[vdso]`.
    pub name: Arc<str>,
    /// The build id; empty when the file has none.
    pub build_id: Arc<[u8]>,
    /// The table; `None` when the file has no unwind information.
    pub table: Option<Arc<Table>>,
}

impl Module {
    /// Returns the build id in lower-case hexadecimal, as profiles carry it.
    pub fn build_id_hex(&self) -> String {
        self.build_id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the table and the rule for an address of the process. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn rule(&self, address: u64) -> Option<(&Table, Rule)> {
        let table = self.table.as_deref()?;
        Some((table, table.lookup(address.wrapping_sub(self.bias))))
    }
}

/// The modules of one process at one moment, sorted by address.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
    /// Rules of this machine's ordinary frames that walks have met.
    pub(crate) met: RuleCache,
}

impl Modules {
    #[cfg(target_os = "linux")]
    pub(crate) const EMPTY: Self = Self { modules: Vec::new(), met: RuleCache::NONE };

    /// Makes an empty list; [`Modules::insert`] adds modules as the process maps them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether walks remember the rules of frames they meet, which makes later ones faster and takes 64 KB. A
    /// copy does what its original does.
    pub fn remember_rules(&mut self, remember: bool) {
        self.met = if remember { RuleCache::new() } else { RuleCache::NONE };
    }

    pub(crate) fn remembers_rules(&self) -> bool {
        self.met.is_on()
    }

    /// Adds a module; whatever it overlaps is cut away, as when a process maps over something.
    pub fn insert(&mut self, module: Module) {
        if module.start >= module.end {
            return;
        }
        self.remove(module.start, module.end);
        let at = self.modules.partition_point(|other| other.start < module.start);
        self.modules.insert(at, module);
    }

    /// Forgets `start..end`, as when a process unmaps it. A module that extends beyond it on one side or both keeps
    /// that part.
    pub fn remove(&mut self, start: u64, end: u64) {
        let mut rest = Vec::new();
        self.met.clear();
        self.modules.retain(|module| {
            let overlaps = module.start < end && start < module.end;
            if overlaps && module.start < start {
                rest.push(Module { end: start, ..module.clone() });
            }
            if overlaps && end < module.end {
                let file_offset = module.file_offset + (end - module.start);
                rest.push(Module { start: end, file_offset, ..module.clone() });
            }
            !overlaps
        });
        if !rest.is_empty() {
            self.modules.append(&mut rest);
            self.modules.sort_unstable_by_key(|module| module.start);
        }
    }

    /// Returns the modules in the order of their addresses.
    pub fn iter(&self) -> std::slice::Iter<'_, Module> {
        self.modules.iter()
    }

    /// Returns how many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Returns the module that holds `address`. Async-signal-safe.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Module> {
        self.index_of(address).map(|index| &self.modules[index])
    }

    /// Returns the modules that overlap `start..end`.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Module> {
        let first = self.modules.partition_point(|module| module.end <= start);
        self.modules[first..].iter().take_while(move |module| module.start < end)
    }

    /// Like [`Modules::find`], but tries the module `near` first, where the previous frame was found.
    #[inline(always)]
    pub(crate) fn find_near(&self, address: u64, near: &mut usize) -> Option<&Module> {
        if let Some(module) = self.modules.get(*near)
            && address.wrapping_sub(module.start) < module.end - module.start
        {
            return Some(module);
        }
        *near = self.index_of(address)?;
        self.modules.get(*near)
    }

    #[cold]
    #[inline(never)]
    fn index_of(&self, address: u64) -> Option<usize> {
        let index = self.modules.partition_point(|module| module.start <= address).checked_sub(1)?;
        (address < self.modules[index].end).then_some(index)
    }

    /// Returns the machine of the process: that of its first table, or else this one.
    pub(crate) fn architecture(&self) -> Architecture {
        let table = self.modules.iter().find_map(|module| module.table.as_deref());
        table.map_or(Architecture::NATIVE, Table::architecture)
    }
}

impl<'a> IntoIterator for &'a Modules {
    type Item = &'a Module;
    type IntoIter = std::slice::Iter<'a, Module>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(start: u64, end: u64) -> Module {
        Module { start, end, file_offset: 0, bias: 0, name: "m".into(), build_id: [].into(), table: None }
    }

    fn ranges(modules: &Modules) -> Vec<(u64, u64, u64)> {
        modules.iter().map(|module| (module.start, module.end, module.file_offset)).collect()
    }

    #[test]
    fn mapping_over_a_module_cuts_it() {
        let mut modules = Modules::new();
        modules.insert(module(0x5000, 0x6000));
        modules.insert(module(0x1000, 0x4000));
        modules.insert(module(0x2000, 0x3000));
        let expected =
            [(0x1000, 0x2000, 0), (0x2000, 0x3000, 0), (0x3000, 0x4000, 0x2000), (0x5000, 0x6000, 0)];
        assert_eq!(ranges(&modules), expected);
        modules.remove(0, 0x3800);
        assert_eq!(ranges(&modules), [(0x3800, 0x4000, 0x2800), (0x5000, 0x6000, 0)]);
    }

    #[test]
    fn find_answers_inside_and_not_between() {
        let mut modules = Modules::new();
        modules.insert(module(0x1000, 0x2000));
        modules.insert(module(0x3000, 0x4000));
        let found = |address| modules.find(address).map(|module| module.start);
        assert_eq!(
            [0xfff, 0x1000, 0x1fff, 0x2000, 0x3000, 0x4000].map(found),
            [None, Some(0x1000), Some(0x1000), None, Some(0x3000), None]
        );
        let overlapping =
            |start, end| modules.overlapping(start, end).map(|module| module.start).collect::<Vec<_>>();
        assert_eq!(overlapping(0x1fff, 0x3001), [0x1000, 0x3000]);
        assert_eq!([overlapping(0x2000, 0x3000), overlapping(0x4000, 0x5000)], [[], []]);
        let mut near = 1;
        assert_eq!(modules.find_near(0x1000, &mut near).map(|module| module.start), Some(0x1000));
        assert_eq!(near, 0);
    }
}
