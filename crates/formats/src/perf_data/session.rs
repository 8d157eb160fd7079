//! Processes, what they have mapped, and their samples, in the order of time.

use std::path::Path;

use flamelet_profile::{LocationId, Mapping, Profile, Quality, Result};
use flamelet_unwind::{Dump, ImageCache, Module, Modules, Registers, walk};
use rustc_hash::FxHashMap as HashMap;

use super::attr::{Attr, bit};
use super::features::{Features, hex};
use super::fields::{Fields, Words};
use super::records::{Comm, Fork, Mmap, RecordHeader, kind};
use super::sample::{Sample, sample_id};
use crate::assembly::{Assembly, ThreadRef};
use crate::perf_script::event_value_type;
use crate::{Notes, Options};

/// The number that mappings of the kernel carry.
const KERNEL: u32 = u32::MAX;
/// Entries of a call chain from here on are no addresses but say what follows.
const FIRST_CONTEXT: u64 = -4095i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;
const CONTEXT_GUEST_USER: u64 = -2560i64 as u64;
/// The part of `misc` that says where a sample was taken, and its value for the user side.
const MISC_MODE: u16 = 7;
const MODE_USER: u16 = 2;

/// One process, or the kernel.
#[derive(Clone, Default)]
struct Process {
    name: String,
    modules: Modules,
    /// Addresses seen since the last change of the modules.
    locations: HashMap<u64, LocationId>,
}

/// An event of the recording and what was counted for it.
struct Event {
    attr: Attr,
    ids: Vec<u64>,
    samples: u64,
}

/// What is lost or doubtful.
#[derive(Default)]
struct Doubts {
    lost: u64,
    truncated: u64,
    unreadable: u64,
    missing_files: Vec<String>,
    changed_files: Vec<String>,
    used_files: HashMap<String, String>,
}

/// Everything that is known while records are read.
pub(super) struct Session {
    pub(super) big: bool,
    /// The file ends early.
    pub(super) cut: bool,
    assembly: Assembly,
    events: Vec<Event>,
    by_id: HashMap<u64, usize>,
    processes: HashMap<u32, Process>,
    thread_names: HashMap<u32, String>,
    threads: HashMap<u32, ThreadRef>,
    images: ImageCache,
    doubts: Doubts,
    /// Row, event, count and sum by stack and event, to become columns when events have names.
    sums: HashMap<(u32, usize), (i64, i64)>,
    order: Vec<(u32, usize)>,
    stack: Vec<LocationId>,
    addresses: Vec<u64>,
}

impl Session {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            big: false,
            cut: false,
            assembly: Assembly::new(options.timeline),
            events: Vec::new(),
            by_id: HashMap::default(),
            processes: HashMap::default(),
            thread_names: HashMap::default(),
            threads: HashMap::default(),
            images: ImageCache::new(),
            doubts: Doubts::default(),
            sums: HashMap::default(),
            order: Vec::new(),
            stack: Vec::new(),
            addresses: vec![0; flamelet_unwind::MAX_DEPTH],
        }
    }

    pub(super) fn add_attr(&mut self, attr: Attr, ids: &[u64]) {
        let number = self.events.len();
        self.by_id.extend(ids.iter().map(|&id| (id, number)));
        self.events.push(Event { attr, ids: ids.to_vec(), samples: 0 });
    }

    pub(super) fn attr_count(&self) -> usize {
        self.events.len()
    }

    pub(super) fn first_attr(&self) -> Option<&Attr> {
        self.events.first().map(|event| &event.attr)
    }

    /// Takes a record of the kernel.
    pub(super) fn record(&mut self, record: &[u8]) {
        let Some(header) = RecordHeader::parse(record, self.big) else { return };
        let mut fields = Fields::new(&record[RecordHeader::SIZE..], self.big);
        let read = match header.kind {
            kind::MMAP | kind::MMAP2 => Mmap::parse(header, fields).map(|mmap| self.mmap(&mmap)),
            kind::COMM => Comm::parse(header, fields).map(|comm| self.comm(comm)),
            kind::FORK => Fork::parse(fields).map(|fork| self.fork(fork)),
            kind::SAMPLE => self.sample(header, fields),
            kind::LOST => fields.u64().and_then(|_| fields.u64()).map(|count| self.doubts.lost += count),
            kind::LOST_SAMPLES => fields.u64().map(|count| self.doubts.lost += count),
            kind::EXIT => Some(()),
            _ => Some(()),
        };
        if read.is_none() {
            self.doubts.unreadable += 1;
        }
    }

    fn mmap(&mut self, mmap: &Mmap) {
        let end = mmap.start.saturating_add(mmap.length);
        if !mmap.executable || end <= mmap.start {
            return;
        }
        let module = self.module(mmap, end);
        let process = self.processes.entry(mmap.pid).or_default();
        process.modules.insert(module);
        process.locations.clear();
    }

    fn module(&mut self, mmap: &Mmap, end: u64) -> Module {
        let dumps = self.events.iter().any(|event| event.attr.has(bit::STACK_USER));
        if dumps && mmap.pid != KERNEL && mmap.name.starts_with('/') {
            match self.images.image(Path::new(&mmap.name)) {
                Some(image) if mmap.build_id.is_empty() || image.build_id() == mmap.build_id => {
                    self.doubts.used_files.insert(mmap.name.clone(), hex(image.build_id()));
                    if let Some(module) = image.module(mmap.start, end, mmap.offset, &mmap.name) {
                        return module;
                    }
                }
                Some(_) => note_once(&mut self.doubts.changed_files, &mmap.name),
                None => note_once(&mut self.doubts.missing_files, &mmap.name),
            }
        }
        let name = match mmap.name.strip_prefix("[kernel.kallsyms]") {
            Some(_) => "[kernel.kallsyms]",
            None => &mmap.name,
        };
        Module {
            start: mmap.start,
            end,
            file_offset: mmap.offset,
            bias: 0,
            name: name.into(),
            build_id: mmap.build_id.clone().into(),
            table: None,
        }
    }

    fn comm(&mut self, comm: Comm) {
        if comm.is_exec {
            self.processes.insert(comm.pid, Process::default());
        }
        if comm.pid == comm.tid {
            self.processes.entry(comm.pid).or_default().name.clone_from(&comm.name);
        }
        self.threads.remove(&comm.tid);
        self.thread_names.insert(comm.tid, comm.name);
    }

    fn fork(&mut self, fork: Fork) {
        if fork.pid != fork.parent_pid
            && let Some(parent) = self.processes.get(&fork.parent_pid).cloned()
        {
            self.processes.insert(fork.pid, parent);
        }
        if let Some(name) = self.thread_names.get(&fork.parent_tid).cloned() {
            self.thread_names.insert(fork.tid, name);
        }
        self.threads.remove(&fork.tid);
    }

    fn thread(&mut self, pid: u32, tid: u32) -> ThreadRef {
        if let Some(&known) = self.threads.get(&tid) {
            return known;
        }
        let name = self.thread_names.get(&tid).map_or("", |name| name);
        let process = self.processes.get(&pid).map_or("", |process| &process.name);
        let thread = self.assembly.thread(u64::from(pid), u64::from(tid), name, process);
        self.threads.insert(tid, thread);
        thread
    }

    fn sample(&mut self, header: RecordHeader, fields: Fields<'_>) -> Option<()> {
        let event = match &self.events[..] {
            [_] => 0,
            [first, ..] => {
                sample_id(&first.attr, fields).and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
            }
            [] => return None,
        };
        let attr = self.events[event].attr.clone();
        let sample = Sample::parse(&attr, fields)?;
        self.events[event].samples += 1;
        self.build_stack(header, &attr, &sample);
        let thread = self.thread(sample.pid, sample.tid);
        let row = self.assembly.row(&self.stack, thread.labels);
        let period = i64::try_from(sample.period.unwrap_or(attr.default_period())).unwrap_or(i64::MAX);
        let order = &mut self.order;
        let sum = self.sums.entry((row, event)).or_insert_with(|| {
            order.push((row, event));
            (0, 0)
        });
        *sum = (sum.0 + 1, sum.1.saturating_add(period));
        if let Some(time) = sample.time {
            self.assembly.event(time, row, thread.id, period);
        }
        Some(())
    }

    /// Makes the stack of a sample, leaf first: the kernel's part, then the user's.
    fn build_stack(&mut self, header: RecordHeader, attr: &Attr, sample: &Sample<'_>) {
        self.stack.clear();
        let registers = sample.registers.and_then(|values| user_registers(attr.user_registers, values));
        let unwinds = registers.is_some() && !sample.stack.is_empty();
        if let Some(chain) = sample.chain {
            self.chain(sample.pid, chain, header.misc & MISC_MODE == MODE_USER, unwinds);
        }
        if let Some(registers) = registers.filter(|_| unwinds) {
            self.unwind(sample, &registers);
        }
        if self.stack.is_empty() && attr.has(bit::IP) {
            let pid = if header.misc & MISC_MODE == MODE_USER { sample.pid } else { KERNEL };
            let location = self.location(pid, sample.ip);
            self.stack.push(location);
        }
    }

    fn chain(&mut self, pid: u32, chain: Words<'_>, starts_in_user: bool, skip_user: bool) {
        let mut in_user = starts_in_user;
        let mut is_exact = true;
        for address in chain.iter() {
            if address >= FIRST_CONTEXT {
                in_user = matches!(address, CONTEXT_USER | CONTEXT_GUEST_USER);
                is_exact = true;
                continue;
            }
            if !(in_user && skip_user) {
                // Callers are return addresses; one less lies in the call.
                let address = if is_exact { address } else { address.saturating_sub(1) };
                let location = self.location(if in_user { pid } else { KERNEL }, address);
                self.stack.push(location);
            }
            is_exact = false;
        }
    }

    fn unwind(&mut self, sample: &Sample<'_>, registers: &Registers) {
        let modules = &self.processes.entry(sample.pid).or_default().modules;
        let mut dump = Dump::new(registers.sp, sample.stack);
        let unwound = walk(modules, registers, &mut dump, &mut self.addresses);
        self.doubts.truncated += u64::from(!unwound.end.is_rooted());
        for at in 0..unwound.depth {
            let location = self.location(sample.pid, self.addresses[at]);
            self.stack.push(location);
        }
    }

    fn location(&mut self, pid: u32, address: u64) -> LocationId {
        let process = self.processes.entry(pid).or_default();
        if let Some(&known) = process.locations.get(&address) {
            return known;
        }
        let builder = &mut self.assembly.builder;
        let mapping = process.modules.find(address).map(|module| {
            let filename = builder.string(&module.name);
            let build_id = builder.string(&module.build_id_hex());
            let (start, limit, offset) = (module.start, module.end, module.file_offset);
            builder.mapping(Mapping { start, limit, offset, filename, build_id, ..Mapping::default() })
        });
        let location = builder.address(mapping, address);
        process.locations.insert(address, location);
        location
    }

    pub(super) fn finish(mut self, features: &Features, notes: &mut Notes) -> Result<Profile> {
        let samples = self.assembly.column("samples", "count");
        let columns = self.columns(features);
        for at in std::mem::take(&mut self.order) {
            let (count, sum) = self.sums[&at];
            self.assembly.add(at.0, samples, count);
            self.assembly.add(at.0, columns[at.1], sum);
        }
        let counted = self.events.iter().filter(|event| event.samples > 0).count();
        match self.events.iter().position(|event| event.samples > 0) {
            Some(only) if counted == 1 => self.assembly.events_count(columns[only]),
            _ => self.assembly.events_count_samples(samples),
        }
        if !features.command.is_empty() {
            self.assembly.builder.comment(&format!("perf: {}", features.command.join(" ")));
        }
        self.note_doubts(features, notes);
        let quality = self.quality();
        let mut profile = self.assembly.finish();
        let engine = profile.intern("perf");
        profile.quality = Some(Quality { engine, ..quality });
        set_build_ids(&mut profile, features);
        Ok(profile)
    }

    /// A column for each event that was sampled, or for the first if none was.
    fn columns(&mut self, features: &Features) -> Vec<usize> {
        let mut columns = Vec::new();
        for (number, event) in self.events.iter().enumerate() {
            let by_id = event.ids.iter().find_map(|id| features.names_by_id.get(id));
            let name = features.event_names.get(number).or(by_id).cloned();
            let name = name.unwrap_or_else(|| event.attr.plain_name());
            let (kind, unit) = event_value_type(plain_event(&name));
            let used =
                event.samples > 0 || (number == 0 && self.events.iter().all(|event| event.samples == 0));
            columns.push(if used { self.assembly.column(&kind, unit) } else { 0 });
        }
        columns
    }

    fn quality(&self) -> Quality {
        let frequency = self.events.iter().find_map(|event| event.attr.frequency());
        Quality {
            asked_millihertz: frequency.unwrap_or(0).saturating_mul(1000),
            samples: self.events.iter().map(|event| event.samples).sum(),
            lost: self.doubts.lost,
            truncated: self.doubts.truncated,
            ..Quality::default()
        }
    }

    fn note_doubts(&mut self, features: &Features, notes: &mut Notes) {
        let doubts = &mut self.doubts;
        for (file, used) in &doubts.used_files {
            if features.build_ids.get(file).is_some_and(|recorded| recorded != used) {
                note_once(&mut doubts.changed_files, file);
            }
        }
        if self.cut {
            notes.push("perf.data ends early: the recording was not finished".into());
        }
        if doubts.lost > 0 {
            notes.push(format!("perf lost {} samples", doubts.lost));
        }
        if doubts.truncated > 0 {
            notes.push(format!("{} stacks do not reach the start of their thread", doubts.truncated));
        }
        if doubts.unreadable > 0 {
            notes.push(format!("{} records could not be read", doubts.unreadable));
        }
        doubts.missing_files.sort();
        doubts.changed_files.sort();
        if !doubts.missing_files.is_empty() {
            notes.push(format!("not here, so stacks end there: {}", doubts.missing_files.join(", ")));
        }
        if !doubts.changed_files.is_empty() {
            notes.push(format!(
                "changed since the recording, so stacks may be wrong: {}",
                doubts.changed_files.join(", ")
            ));
        }
    }
}

fn note_once(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|known| known == name) {
        list.push(name.into());
    }
}

fn plain_event(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, modifiers)) if modifiers.chars().all(|c| "ukhpPHGIDSWe".contains(c)) => event,
        _ => name,
    }
}

fn set_build_ids(profile: &mut Profile, features: &Features) {
    for at in 0..profile.mappings().len() {
        let mapping = profile.mappings()[at];
        if mapping.build_id.is_empty()
            && let Some(id) = features.build_ids.get(profile.string(mapping.filename))
        {
            let id = profile.intern(id);
            profile.mappings_mut()[at].build_id = id;
        }
    }
}

/// The registers that unwinding needs, by the numbers that perf gives them on each machine.
fn user_registers(mask: u64, values: Words<'_>) -> Option<Registers> {
    let get = |number: u32| {
        let before = mask & ((1u64 << number) - 1);
        (mask >> number & 1 == 1).then(|| values.get(before.count_ones() as usize)).flatten()
    };
    // Only 64-bit Arm has a register 32, its program counter.
    if mask >> 32 & 1 == 1 {
        return Some(Registers {
            pc: get(32)?,
            sp: get(31)?,
            fp: get(29).unwrap_or(0),
            lr: get(30).unwrap_or(0),
        });
    }
    Some(Registers { pc: get(8)?, sp: get(7)?, fp: get(6).unwrap_or(0), lr: 0 })
}
