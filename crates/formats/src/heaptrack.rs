//! heaptrack's data: raw (addresses and pointers, as recorded) or interpreted (names and allocation kinds).
//!
//! The values are Go's four, where `inuse_…` is what was never freed ("leaked"), and also `temporary_objects` (freed
//! before anything else was allocated) and `peak_space`. All numbers in a line are hexadecimal.

mod costs;

use costs::TraceCosts;
use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{
    Budget, ErrorKind, HeapSizes, LabelSetId, Line, LocationId, MappingId, Profile, Result,
};
use rustc_hash::FxHashMap as HashMap;

use crate::assembly::Assembly;
use crate::heap::add_go_columns;
use crate::input::{Input, LineResult};
use crate::number::{hex, words};
use crate::{Error, FormatOptions, Notes};

/// The newest known version of the file format.
const NEWEST: u64 = 3;

/// What a trace with its figures costs, and a pointer that was allocated.
const TRACE: usize = size_of::<TraceLine>() + 2 * size_of::<costs::TraceCost>();
const POINTER: usize = hash_entry(size_of::<(u64, (u32, u64))>());
/// What a frame costs while its location is looked up.
const PLACED: usize = hash_entry(size_of::<(u64, LocationId)>());

/// Returns whether `head` starts like a heaptrack file: `v HEAPTRACK-VERSION FILE-VERSION`.
pub(crate) fn recognise(head: &[u8]) -> bool {
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(versions) = first.strip_prefix(b"v ") else { return false };
    let mut versions = words(versions);
    let both = versions.next().is_some_and(|word| hex(word).is_some_and(|version| version >= 0x1_0000));
    both && versions.next().is_none_or(|word| hex(word).is_some()) && versions.next().is_none()
}

/// Reads heaptrack's data.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let mut reader = EventReader::new(input.budget());
    input.each_line(|line| reader.line(line))?;
    reader.finish(notes)
}

/// A frame from a `t` line: an address (raw) or the number of an `i` line, and the frame that called it.
struct TraceLine {
    frame: u64,
    parent: u32,
}

/// An `i` line: an address with its names.
struct InstructionLine {
    address: u64,
    module: u32,
    /// Function, file, line; innermost first.
    frames: Vec<(u32, u32, u32)>,
}

/// An `m` line: one module and its address range.
struct ModuleLine {
    name: String,
    base: u64,
    limit: u64,
}

struct EventReader {
    budget: Budget,
    version: Option<u64>,
    strings: Vec<String>,
    traces: Vec<TraceLine>,
    places: Vec<InstructionLine>,
    modules: Vec<ModuleLine>,
    /// `a` lines: size and trace. Only interpreted data has them.
    kinds: Vec<(u64, u32)>,
    interpreted: bool,
    costs: TraceCosts,
    command: String,
    executable: String,
    millis: u64,
    sizes: HeapSizes,
    peak_rss: u64,
    page_size: u64,
    attached: bool,
    /// The largest number of pointers known at once.
    most_pointers: usize,
}

impl EventReader {
    fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            version: None,
            strings: Vec::new(),
            traces: Vec::new(),
            places: Vec::new(),
            modules: Vec::new(),
            kinds: Vec::new(),
            interpreted: false,
            costs: TraceCosts::default(),
            command: String::new(),
            executable: String::new(),
            millis: 0,
            sizes: HeapSizes::default(),
            peak_rss: 0,
            page_size: 0,
            attached: false,
            most_pointers: 0,
        }
    }

    fn line(&mut self, line: &[u8]) -> LineResult {
        let Some((&kind, rest)) = line.split_first() else { return Ok(()) };
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        if self.version.is_none() {
            return self.version_line(kind, rest);
        }
        match kind {
            b'+' => self.allocation(rest),
            b'-' => self.deallocation(rest),
            b't' => self.trace(rest),
            b'i' => self.place(rest),
            b'a' => self.allocation_kind(rest),
            b's' => {
                self.interpreted = true;
                let text = self.text(rest)?.0.to_owned();
                if self.budget.has_room(text.len() + ALLOCATION) {
                    self.budget.push(&mut self.strings, text);
                }
                Ok(())
            }
            b'm' => self.module(rest),
            b'x' => {
                self.executable = self.text(rest)?.0.to_owned();
                Ok(())
            }
            b'X' => {
                self.command = String::from_utf8_lossy(rest).into_owned();
                Ok(())
            }
            b'c' => {
                self.moment(number(rest)?);
                Ok(())
            }
            b'R' => number(rest).map(|pages| self.peak_rss = self.peak_rss.max(pages)),
            b'I' => number(words(rest).next().unwrap_or_default()).map(|size| self.page_size = size),
            b'A' => {
                self.attached = true;
                Ok(())
            }
            // Comments, and lines of newer versions that are not about allocations.
            _ => Ok(()),
        }
    }

    /// Takes the time, in milliseconds since the start: what follows happened after it.
    fn moment(&mut self, millis: u64) {
        self.millis = self.millis.max(millis);
        self.sizes.push(self.millis.saturating_mul(1_000_000), self.costs.take_most());
    }

    fn version_line(&mut self, kind: u8, rest: &[u8]) -> LineResult {
        if kind != b'v' {
            return Err("no version");
        }
        let version = words(rest).nth(1).map_or(Ok(0), number)?;
        if version > NEWEST {
            return Err("unsupported newer version of the heaptrack format");
        }
        self.version = Some(version);
        Ok(())
    }

    /// Splits off a text. Since version 3 it is preceded by its length.
    fn text<'a>(&self, rest: &'a [u8]) -> std::result::Result<(&'a str, &'a [u8]), &'static str> {
        let (text, after) = if self.version.unwrap_or(0) >= 3 {
            let space = memchr::memchr(b' ', rest).ok_or("a string without its length")?;
            let length = number(&rest[..space])? as usize;
            rest[space + 1..].split_at_checked(length).ok_or("a string shorter than its length")?
        } else {
            (rest, &b""[..])
        };
        Ok((std::str::from_utf8(text).map_err(|_| "a string that is not UTF-8")?, after))
    }

    /// Takes an allocation. Raw: size, trace, pointer. Interpreted: the number of an `a` line, or size and trace in
    /// version 0.
    fn allocation(&mut self, rest: &[u8]) -> LineResult {
        let mut numbers = Numbers(words(rest));
        let first = numbers.next()?;
        if self.interpreted && self.version >= Some(1) {
            let &(size, trace) = self.kinds.get(first as usize).ok_or("an undefined allocation")?;
            self.costs.allocate(trace, size, first);
            return Ok(());
        }
        let trace = numbers.next()?;
        let pointer = numbers.next()?;
        let trace = u32::try_from(trace).ok().filter(|&trace| trace as usize <= self.traces.len());
        self.costs.allocate_pointer(trace.ok_or("an undefined trace")?, first, pointer);
        let pointers = self.costs.pointers();
        if pointers > self.most_pointers {
            self.most_pointers = pointers;
            self.budget.has_room(POINTER);
        }
        Ok(())
    }

    fn deallocation(&mut self, rest: &[u8]) -> LineResult {
        let first = number(words(rest).next().unwrap_or_default())?;
        if self.interpreted && self.version >= Some(1) {
            let &(size, trace) = self.kinds.get(first as usize).ok_or("an undefined allocation")?;
            self.costs.free(trace, size, first);
        } else {
            self.costs.free_pointer(first);
        }
        Ok(())
    }

    fn trace(&mut self, rest: &[u8]) -> LineResult {
        let mut numbers = Numbers(words(rest));
        let frame = numbers.next()?;
        let parent =
            u32::try_from(numbers.next()?).ok().filter(|&parent| parent as usize <= self.traces.len());
        let trace = TraceLine { frame, parent: parent.ok_or("a trace with an undefined caller")? };
        if self.budget.has_room(TRACE) {
            self.traces.push(trace);
        }
        Ok(())
    }

    /// Takes `ip module [function file line]…`; a function may come without file and line.
    fn place(&mut self, rest: &[u8]) -> LineResult {
        self.interpreted = true;
        let numbers: Vec<u32> = words(rest)
            .skip(1)
            .map(|word| number(word).and_then(|n| u32::try_from(n).map_err(|_| "a number that is too large")))
            .collect::<std::result::Result<_, _>>()?;
        let address = number(words(rest).next().unwrap_or_default())?;
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        let frames: Vec<_> =
            (1..numbers.len()).step_by(3).map(|index| (at(index), at(index + 1), at(index + 2))).collect();
        if self.budget.has_room(size_of_val(&*frames) + ALLOCATION) {
            self.budget.push(&mut self.places, InstructionLine { address, module: at(0), frames });
        }
        Ok(())
    }

    fn allocation_kind(&mut self, rest: &[u8]) -> LineResult {
        let mut numbers = Numbers(words(rest));
        let (size, trace) = (numbers.next()?, numbers.next()?);
        let trace = u32::try_from(trace).ok().filter(|&trace| trace as usize <= self.traces.len());
        self.interpreted = true;
        self.budget.push(&mut self.kinds, (size, trace.ok_or("an undefined trace")?));
        Ok(())
    }

    /// Takes `name base [vaddr size]…`, or `-`, after which all modules are listed again.
    fn module(&mut self, rest: &[u8]) -> LineResult {
        let (name, numbers) = if self.version >= Some(3) {
            self.text(rest)?
        } else {
            let space = memchr::memchr(b' ', rest).unwrap_or(rest.len());
            let name = std::str::from_utf8(&rest[..space]).map_err(|_| "a name that is not UTF-8")?;
            (name, &rest[space..])
        };
        if name == "-" {
            return Ok(());
        }
        let name = if name == "x" { self.executable.clone() } else { name.to_owned() };
        let mut numbers = words(numbers);
        let base = number(numbers.next().unwrap_or_default())?;
        let mut limit = base;
        while let Some(start) = numbers.next() {
            let size = number(numbers.next().unwrap_or_default())?;
            limit = limit.max(base.wrapping_add(number(start)?).wrapping_add(size));
        }
        let is_new = || !self.modules.iter().any(|known| known.base == base && known.name == name);
        if limit > base
            && self.budget.can_work(self.modules.len())
            && is_new()
            && self.budget.has_room(name.len() + ALLOCATION)
        {
            self.budget.push(&mut self.modules, ModuleLine { name, base, limit });
        }
        Ok(())
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        if self.costs.is_empty() {
            return Err(Error::new(ErrorKind::Truncated, "the heaptrack file has no allocation"));
        }
        self.moment(self.millis);
        let sizes = std::mem::take(&mut self.sizes);
        let mut assembly = Assembly::new(false, &self.budget);
        add_go_columns(&mut assembly);
        assembly.column("temporary_objects", "count");
        assembly.column("peak_space", "bytes");
        let peak = assembly.builder.string("peak_space");
        let header = assembly.builder.header_mut();
        header.default_sample_type = peak;
        header.duration_nanos = i64::try_from(self.millis.saturating_mul(1_000_000)).unwrap_or(0);
        assembly.builder.comment(&format!("heaptrack: cmd {}", self.command));
        let rss = self.peak_rss.saturating_mul(self.page_size);
        assembly.builder.comment(&format!("heaptrack: peak RSS {rss} B, heaptrack's own included"));
        if self.attached {
            notes.push("heaptrack was attached: earlier allocations are missing".into());
        }
        if self.costs.unknown_frees() > 0 {
            notes.push(format!("{} frees of unknown pointers are ignored", self.costs.unknown_frees()));
        }
        self.modules.sort_by_key(|module| module.base);
        let mut stacks = StackResolver::new(&self, &mut assembly);
        for (trace, cost) in self.costs.by_trace() {
            let values = [
                cost.objects,
                cost.bytes,
                cost.live_objects,
                cost.live_bytes,
                cost.temporary,
                cost.peak_bytes,
            ];
            stacks.sample(trace, values)?;
        }
        let mut profile = assembly.finish()?;
        profile.set_heap_sizes(sizes);
        Ok(profile)
    }
}

/// Reads the numbers of a line, one after another.
struct Numbers<I>(I);

impl<'a, I: Iterator<Item = &'a [u8]>> Numbers<I> {
    fn next(&mut self) -> std::result::Result<u64, &'static str> {
        number(self.0.next().unwrap_or_default())
    }
}

fn number(word: &[u8]) -> std::result::Result<u64, &'static str> {
    hex(word).ok_or("a number is missing or bad")
}

/// Turns traces into stacks.
struct StackResolver<'a> {
    reader: &'a EventReader,
    assembly: &'a mut Assembly,
    mappings: Vec<MappingId>,
    locations: HashMap<u64, LocationId>,
}

impl<'a> StackResolver<'a> {
    fn new(reader: &'a EventReader, assembly: &'a mut Assembly) -> Self {
        let mappings = reader
            .modules
            .iter()
            .map(|module| assembly.builder.file_mapping(module.base..module.limit, 0, &module.name, ""));
        let mappings = mappings.collect();
        Self { reader, assembly, mappings, locations: HashMap::default() }
    }

    fn sample(&mut self, trace: u32, values: [i64; 6]) -> Result<()> {
        let mut stack = Vec::new();
        let mut at = trace;
        // Callers come before their callees, so the numbers decrease and the walk ends.
        while let Some(row) = at.checked_sub(1) {
            let TraceLine { frame, parent } = self.reader.traces[row as usize];
            self.reader.budget.work(1)?;
            stack.push(self.location(frame)?);
            at = parent;
        }
        let row = self.assembly.row(&stack, LabelSetId::EMPTY);
        values.iter().enumerate().for_each(|(column, &value)| self.assembly.add(row, column, value));
        self.assembly.check_room()
    }

    fn location(&mut self, frame: u64) -> Result<LocationId> {
        if let Some(&known) = self.locations.get(&frame) {
            return Ok(known);
        }
        let location = if self.reader.interpreted { self.named(frame)? } else { self.raw(frame) };
        self.reader.budget.charge(PLACED)?;
        self.locations.insert(frame, location);
        Ok(location)
    }

    fn raw(&mut self, address: u64) -> LocationId {
        let modules = &self.reader.modules;
        let at = modules.partition_point(|module| module.base <= address).checked_sub(1);
        let at = at.filter(|&at| address < modules[at].limit);
        self.assembly.builder.address(at.map(|at| self.mappings[at]), address)
    }

    fn named(&mut self, number: u64) -> Result<LocationId> {
        let missing =
            || Error::new(ErrorKind::Corrupt, format!("the heaptrack file has no address {number}"));
        let index =
            usize::try_from(number).ok().and_then(|number| number.checked_sub(1)).ok_or_else(missing)?;
        let place = self.reader.places.get(index).ok_or_else(missing)?;
        let string = |at: u32| (at as usize).checked_sub(1).and_then(|at| self.reader.strings.get(at));
        let module = string(place.module).map(|name| self.assembly.module(name));
        let mut lines = Vec::new();
        for &(function, file, line) in &place.frames {
            let Some(name) = string(function) else { continue };
            let file = string(file).map_or("", |file| file);
            let function = Some(self.assembly.linked_function(name, file));
            lines.push(Line { function, line: i64::from(line), column: 0 });
        }
        Ok(self.assembly.builder.location(module, place.address, &lines))
    }
}
