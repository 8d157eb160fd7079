//! Samples that consist of addresses, in files that list the loaded modules only at their end.

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, Label, Line, LocationId, MappingId};
use rustc_hash::FxHashMap as HashMap;

use crate::assembly::Assembly;
use crate::number::{hex, words};

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedModule {
    pub(crate) start: u64,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
    pub(crate) executable: bool,
}

/// Parses a line of `/proc/PID/maps`: `start-limit perms offset dev inode path`, or the short `start-limit: path`.
pub(crate) fn parse_module(line: &[u8]) -> Option<MappedModule> {
    parse_full(line).or_else(|| parse_short(line))
}

fn parse_short(line: &[u8]) -> Option<MappedModule> {
    let (range, path) = line.trim_ascii().split_at(memchr::memchr(b':', line.trim_ascii())?);
    let dash = memchr::memchr(b'-', range)?;
    let (start, limit) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let path = String::from_utf8_lossy(path[1..].trim_ascii()).into_owned();
    (start < limit).then_some(MappedModule { start, limit, offset: 0, path, executable: true })
}

fn parse_full(line: &[u8]) -> Option<MappedModule> {
    let mut fields = words(line);
    let range = fields.next()?;
    let dash = memchr::memchr(b'-', range)?;
    let perms = fields.next().filter(|perms| perms.len() >= 3)?;
    let offset = hex(fields.next()?)?;
    let (start, limit) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    // The device and the inode are always present; the path may be missing and may contain spaces.
    let path = fields.nth(2).map_or(&b""[..], |first| {
        let at = first.as_ptr() as usize - line.as_ptr() as usize;
        line[at..].trim_ascii_end()
    });
    let path = String::from_utf8_lossy(path.strip_suffix(b" (deleted)").unwrap_or(path)).into_owned();
    (start < limit).then_some(MappedModule { start, limit, offset, path, executable: perms.contains(&b'x') })
}

/// A frame's names, if the file has them.
#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: i64,
}

/// What a sample costs in addition to its frames, labels and values.
const SAMPLE: usize = size_of::<(usize, Vec<Label>, Vec<i64>)>() + 2 * ALLOCATION;
/// What a named address costs, and each of its names.
const NAMED: usize = hash_entry(size_of::<(u64, Vec<Symbol>)>()) + 4 * size_of::<Symbol>() + ALLOCATION;
const NAME: usize = size_of::<Symbol>() + 2 * ALLOCATION;
/// What an address costs while its location is looked up.
const PLACED: usize = hash_entry(size_of::<(u64, LocationId)>());

/// Collects samples until the modules are known, as long as the budget has room.
pub(crate) struct AddressSamples {
    budget: Budget,
    frames: Vec<u64>,
    /// Where each sample's frames end, and its labels and values.
    samples: Vec<(usize, Vec<Label>, Vec<i64>)>,
    modules: Vec<MappedModule>,
    /// Innermost inlined function first.
    symbols: HashMap<u64, Vec<Symbol>>,
}

impl MappedModule {
    /// Returns whether addresses in it may be code of a file.
    pub(crate) fn is_code(&self) -> bool {
        self.executable && !self.path.is_empty() && !self.path.starts_with("[heap")
    }
}

impl AddressSamples {
    /// Creates a collection without samples.
    pub(crate) fn new(budget: &Budget) -> Self {
        let budget = budget.clone();
        Self {
            budget,
            frames: Vec::new(),
            samples: Vec::new(),
            modules: Vec::new(),
            symbols: HashMap::default(),
        }
    }

    /// Adds a sample; `frames` are leaf first.
    pub(crate) fn push(
        &mut self,
        frames: impl ExactSizeIterator<Item = u64>,
        labels: Vec<Label>,
        values: Vec<i64>,
    ) {
        let size = frames.len() * size_of::<u64>() + size_of_val(&*labels) + size_of_val(&*values);
        if !self.budget.can_work(frames.len()) || !self.budget.has_room(SAMPLE + size) {
            return;
        }
        self.frames.extend(frames);
        self.samples.push((self.frames.len(), labels, values));
    }

    /// Returns how many samples there are.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Adds a module; only executable ones with a file matter.
    pub(crate) fn module(&mut self, module: MappedModule) {
        if module.is_code() && self.budget.has_room(module.path.len() + ALLOCATION) {
            self.budget.push(&mut self.modules, module);
        }
    }

    /// Names an address; inlined functions at the same address are named before the ones around them.
    pub(crate) fn symbol(&mut self, address: u64, symbol: Symbol) {
        let text = symbol.name.len() + symbol.file.len();
        let entry = if self.is_named(address) { NAME } else { NAMED };
        if self.budget.has_room(entry + text) {
            self.symbols.entry(address).or_default().push(symbol);
        }
    }

    pub(crate) fn is_named(&self, address: u64) -> bool {
        self.symbols.contains_key(&address)
    }

    /// Adds everything to `assembly`, whose columns must exist.
    pub(crate) fn finish(mut self, assembly: &mut Assembly) {
        self.modules.sort_by_key(|module| module.start);
        let mappings: Vec<MappingId> = self.modules.iter().map(|module| mapping(module, assembly)).collect();
        let mut locations: HashMap<u64, LocationId> = HashMap::default();
        let mut start = 0;
        let mut stack = Vec::new();
        for (end, labels, values) in &self.samples {
            if self.budget.check().is_err() {
                return;
            }
            stack.clear();
            for &address in &self.frames[start..*end] {
                let location = *locations.entry(address).or_insert_with(|| {
                    self.budget.has_room(PLACED);
                    let mapping = find(&self.modules, address).map(|at| mappings[at]);
                    location(mapping, address, self.symbols.get(&address), assembly)
                });
                stack.push(location);
            }
            start = *end;
            let labels = assembly.builder.labels(labels);
            let row = assembly.row(&stack, labels);
            for (column, &value) in values.iter().enumerate() {
                assembly.add(row, column, value);
            }
        }
    }
}

pub(crate) fn mapping(module: &MappedModule, assembly: &mut Assembly) -> MappingId {
    let MappedModule { start, limit, offset, path, .. } = module;
    assembly.builder.file_mapping(*start..*limit, *offset, path, "")
}

/// Returns which of the modules, sorted by address, contains an address.
pub(crate) fn find(modules: &[MappedModule], address: u64) -> Option<usize> {
    let at = modules.partition_point(|module| module.start <= address).checked_sub(1)?;
    (address < modules[at].limit).then_some(at)
}

fn location(
    mapping: Option<MappingId>,
    address: u64,
    symbols: Option<&Vec<Symbol>>,
    assembly: &mut Assembly,
) -> LocationId {
    let Some(symbols) = symbols else { return assembly.builder.address(mapping, address) };
    let lines: Vec<Line> = symbols
        .iter()
        .map(|symbol| Line {
            function: Some(assembly.builder.named_function(&symbol.name, &symbol.file)),
            line: symbol.line,
            column: 0,
        })
        .collect();
    assembly.builder.location(mapping, address, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines() {
        let module =
            parse_module(b"55d0-55f0 r-xp 0001f000 08:01 12345    /usr/bin/with space (deleted)").unwrap();
        assert_eq!((module.start, module.limit, module.offset), (0x55d0, 0x55f0, 0x1f000));
        assert_eq!(module.path, "/usr/bin/with space");
        assert!(module.executable);
        assert_eq!(parse_module(b"7f-80 rw-p 0 00:00 0").unwrap().path, "");
        assert_eq!(parse_module(b"  00400000-00fcb000: /bin/x").unwrap().path, "/bin/x");
        assert_eq!(parse_module(b"80-7f rw-p 0 00:00 0"), None);
        assert_eq!(parse_module(b"nonsense"), None);
    }
}
