//! Replays processes, what they have mapped, and their samples, in time order.

use std::collections::BTreeSet;
use std::fs::File;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, KERNEL_MAPPING, LocationId, Profile, Quality, Result, hex};
use flamelet_unwind::perf_event::{
    ByteReader, Comm, EventAttr, Mmap, RecordHeader, Sample, TaskChange, WordArray, callchain,
    callchain_frames, misc, record_kind, sample_bit,
};
use flamelet_unwind::{Dump, Era, Module, walk};
use rustc_hash::FxHashMap as HashMap;

use super::dumps::Dumps;
use super::features::Features;
use super::images::Images;
use super::processes::{KERNEL, Processes, intern_module};
use super::sparse::DumpPlace;
use crate::assembly::{Assembly, ByteIndex, ThreadRef};
use crate::perf_script::{event_value_type, plain_event, preferred_event};
use crate::{FormatOptions, Notes};

/// After this many stacks of a process were unwound, the rules of its frames are cached, but for no more processes
/// than the maximum: each takes 64 KB.
const MANY_UNWOUND: u32 = 256;
const MAX_REMEMBERED: u32 = 64;
/// A thread, until something about it changes.
#[derive(Clone, Copy)]
struct ThreadInEra {
    thread: ThreadRef,
    era: Era,
}

/// What was counted for a stack and an event; it becomes a column once events have names.
struct Sum {
    row: u32,
    event: usize,
    count: i64,
    value: i64,
}

/// An event of the recording and its totals.
struct SampledEvent {
    attr: EventAttr,
    ids: Vec<u64>,
    samples: u64,
}

/// What was lost or is doubtful.
#[derive(Default)]
struct Problems {
    lost: u64,
    truncated: u64,
    unreadable: u64,
    missing_files: BTreeSet<String>,
    changed_files: BTreeSet<String>,
    /// A program that generates code reported it to perf.
    has_jitdump: bool,
    used_files: HashMap<String, String>,
}

impl Problems {
    /// Keeps the name of a file, once.
    fn note(&mut self, list: fn(&mut Self) -> &mut BTreeSet<String>, name: &str, budget: &Budget) {
        if !list(self).contains(name) && budget.has_room(FILE + name.len()) {
            list(self).insert(name.into());
        }
    }
}

/// What an event costs in addition to its ids, and a sum; and what the names of a thread and of a file cost in
/// addition to their text.
const EVENT: usize = size_of::<SampledEvent>() + ALLOCATION;
const SUM: usize = size_of::<Sum>() + hash_entry(size_of::<((u32, usize), usize)>());
const NAME: usize = hash_entry(size_of::<(u32, String)>()) + ALLOCATION;
const FILE: usize = hash_entry(size_of::<(String, String)>()) + 4 * ALLOCATION;

/// The state while records are read.
pub(super) struct Replay<'a> {
    /// The file that dumps were left in.
    pub(super) file: Option<&'a File>,
    pub(super) big: bool,
    /// The file is cut off.
    pub(super) cut: bool,
    assembly: Assembly,
    events: Vec<SampledEvent>,
    by_id: HashMap<u64, usize>,
    processes: Processes,
    thread_names: HashMap<u32, String>,
    tasks: HashMap<(u32, u32), ThreadInEra>,
    images: Images,
    /// How many processes have the rules of their frames cached.
    remembered: u32,
    problems: Problems,
    sums: Vec<Sum>,
    /// The sum of a row and an event.
    sum_of: HashMap<(u32, usize), usize>,
    /// The sum for the bytes of a sample's stack.
    seen: ByteIndex<usize>,
    /// The most that these may be charged; then they are dropped, since all of them can be computed again.
    most_seen: usize,
    key: Vec<u8>,
    dumps: Dumps,
    stack: Vec<LocationId>,
    addresses: Vec<u64>,
}

impl Replay<'_> {
    pub(super) fn new(options: &FormatOptions, budget: &Budget) -> Self {
        Self {
            file: None,
            big: false,
            cut: false,
            assembly: Assembly::new(options.timeline, budget),
            events: Vec::new(),
            by_id: HashMap::default(),
            processes: Processes::within(budget),
            thread_names: HashMap::default(),
            tasks: HashMap::default(),
            images: Images::new(options),
            remembered: 0,
            problems: Problems::default(),
            sums: Vec::new(),
            sum_of: HashMap::default(),
            seen: ByteIndex::new(budget),
            most_seen: usize::try_from(budget.room()).unwrap_or(usize::MAX) / 8,
            key: Vec::new(),
            dumps: Dumps::default(),
            stack: Vec::new(),
            addresses: vec![0; flamelet_unwind::MAX_DEPTH],
        }
    }

    /// Returns how much of a dump most stacks need.
    pub(super) fn dump_part(&self) -> usize {
        self.dumps.part()
    }

    pub(super) fn add_attr(&mut self, attr: EventAttr, ids: Vec<u64>) {
        let size = size_of_val(&*ids) + ids.len() * hash_entry(size_of::<(u64, usize)>());
        if !self.assembly.budget().has_room(EVENT + size) {
            return;
        }
        let number = self.events.len();
        self.by_id.extend(ids.iter().map(|&id| (id, number)));
        self.events.push(SampledEvent { attr, ids, samples: 0 });
    }

    fn forget_seen(&mut self) {
        self.seen = ByteIndex::new(self.assembly.budget());
    }

    pub(super) fn attr_count(&self) -> usize {
        self.events.len()
    }

    pub(super) fn first_attr(&self) -> Option<&EventAttr> {
        self.events.first().map(|event| &event.attr)
    }

    /// Takes a record of the kernel.
    pub(super) fn record(&mut self, record: &[u8], dump: Option<DumpPlace>) {
        let Some(header) = RecordHeader::parse(record, self.big) else { return };
        let mut fields = ByteReader::new(&record[RecordHeader::SIZE..], self.big);
        let read = match header.kind {
            record_kind::MMAP | record_kind::MMAP2 => {
                Mmap::parse(header, fields).map(|mmap| self.mmap(&mmap))
            }
            record_kind::COMM => Comm::parse(header, fields).map(|comm| self.comm(&comm)),
            record_kind::FORK => TaskChange::parse(header, fields).map(|fork| self.fork(fork)),
            record_kind::SAMPLE => self.sample(header, fields, dump),
            record_kind::LOST => fields.u64().and_then(|_| fields.u64()).map(|count| self.lost(count)),
            record_kind::LOST_SAMPLES => fields.u64().map(|count| self.lost(count)),
            record_kind::EXIT => TaskChange::parse(header, fields).map(|ended| self.exit(ended)),
            _ => Some(()),
        };
        if read.is_none() {
            self.problems.unreadable += 1;
        }
    }

    fn lost(&mut self, count: u64) {
        self.problems.lost = self.problems.lost.saturating_add(count);
    }

    fn mmap(&mut self, mmap: &Mmap<'_>) {
        let end = mmap.start.saturating_add(mmap.length);
        if !mmap.is_executable || end <= mmap.start {
            return;
        }
        let name = String::from_utf8_lossy(mmap.name);
        let base = name.rsplit('/').next().unwrap_or_default();
        self.problems.has_jitdump |= base.starts_with("jit-") && base.ends_with(".dump");
        let module = self.module(mmap, &name, end);
        self.processes.map(mmap.pid, module);
        if mmap.pid == KERNEL {
            self.forget_seen();
        }
        self.tasks.clear();
    }

    fn module(&mut self, mmap: &Mmap<'_>, name: &str, end: u64) -> Module {
        let build_id = mmap.build_id.unwrap_or_default();
        let dumps = self.events.iter().any(|event| event.attr.has(sample_bit::STACK_USER));
        if dumps && mmap.pid != KERNEL && name.starts_with('/') {
            match self.images.image(name, self.assembly.budget()) {
                Some(image) if build_id.is_empty() || image.build_id() == build_id => {
                    if self.assembly.budget().has_room(FILE + name.len()) {
                        self.problems.used_files.insert(name.to_owned(), hex::encode(image.build_id()));
                    }
                    if let Some(module) = image.module(mmap.start, end, mmap.offset, name) {
                        return module;
                    }
                }
                Some(_) => {
                    self.problems.note(|problems| &mut problems.changed_files, name, self.assembly.budget());
                }
                None => {
                    self.problems.note(|problems| &mut problems.missing_files, name, self.assembly.budget());
                }
            }
        }
        let name = match name.strip_prefix(KERNEL_MAPPING) {
            Some(_) => KERNEL_MAPPING,
            None => name,
        };
        Module {
            start: mmap.start,
            end,
            file_offset: mmap.offset,
            bias: 0,
            name: name.into(),
            build_id: build_id.into(),
            table: None,
        }
    }

    fn comm(&mut self, comm: &Comm<'_>) {
        let name = String::from_utf8_lossy(comm.name).into_owned();
        if comm.is_exec {
            self.processes.exec(comm.pid);
        }
        if comm.pid == comm.tid {
            self.processes.entry(comm.pid).name.clone_from(&name);
        }
        self.tasks.clear();
        self.name_thread(comm.tid, name);
    }

    fn fork(&mut self, fork: TaskChange) {
        self.processes.fork(fork);
        if let Some(name) = self.thread_names.get(&fork.parent_tid).cloned() {
            self.name_thread(fork.tid, name);
        }
        self.tasks.clear();
    }

    fn name_thread(&mut self, tid: u32, name: String) {
        let before = self.thread_names.get(&tid).map_or(0, |name| NAME + name.len());
        self.assembly.budget().refund(before);
        if self.assembly.budget().has_room(NAME + name.len()) {
            self.thread_names.insert(tid, name);
        }
    }

    fn exit(&mut self, ended: TaskChange) {
        self.processes.exit(ended);
        self.tasks.clear();
    }

    fn task(&mut self, pid: u32, tid: u32) -> ThreadInEra {
        if let Some(&known) = self.tasks.get(&(pid, tid)) {
            return known;
        }
        self.processes.is_seen(pid, tid);
        let name = self.thread_names.get(&tid).map_or("", |name| name);
        let process = self.processes.get(pid);
        let process_name = process.map_or("", |process| &process.name);
        let thread = self.assembly.thread(u64::from(pid), u64::from(tid), name, process_name);
        if self.sums.is_empty()
            && let Some(program) = process.and_then(|process| process.space.modules().iter().next())
        {
            // Readers of pprof take the first mapping for the program itself, which is mapped below its libraries.
            intern_module(&mut self.assembly.builder, program);
        }
        let task = ThreadInEra { thread, era: self.processes.era(pid) };
        self.tasks.insert((pid, tid), task);
        task
    }

    fn sample(
        &mut self,
        header: RecordHeader,
        mut fields: ByteReader<'_>,
        dump: Option<DumpPlace>,
    ) -> Option<()> {
        let event = match &self.events[..] {
            [_] => 0,
            [first, ..] => {
                let id = first.attr.sample_layout().sample_id(fields);
                id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
            }
            [] => return None,
        };
        let (layout, default_period) =
            (self.events[event].attr.sample_layout(), self.events[event].attr.default_period());
        let sample = match dump {
            Some(_) => {
                let (sample, _) = Sample::parse_up_to_dump(&layout, &mut fields)?;
                Sample { stack: fields.rest(), ..sample }
            }
            None => Sample::parse(&layout, fields)?,
        };
        let unwound = self.unwind(&sample, dump);
        self.events[event].samples += 1;
        let task = self.task(sample.pid, sample.tid);
        let in_user = header.misc & misc::MODE_MASK == misc::MODE_USER;
        let sum = self.sum(in_user, unwound, event, &sample, task);
        let period = i64::try_from(sample.period.unwrap_or(default_period)).unwrap_or(i64::MAX);
        let sum = &mut self.sums[sum];
        sum.count += 1;
        sum.value = sum.value.saturating_add(period);
        if let Some(time) = sample.time {
            self.assembly.event(time, sum.row, task.thread.id, period);
        }
        Some(())
    }

    /// Returns the sum that a sample belongs to. Only a stack whose bytes are new is examined frame by frame.
    fn sum(
        &mut self,
        in_user: bool,
        unwound: Option<usize>,
        event: usize,
        sample: &Sample<'_>,
        task: ThreadInEra,
    ) -> usize {
        self.key.clear();
        self.key.extend_from_slice(&task.era.number().to_ne_bytes());
        self.key.extend_from_slice(&(task.thread.id.index() as u32).to_ne_bytes());
        self.key.extend_from_slice(&(event as u32 * 2 + u32::from(in_user)).to_ne_bytes());
        self.key.extend_from_slice(&sample.ip.to_ne_bytes());
        self.key.extend_from_slice(sample.callchain.map_or(&[], |chain| chain.bytes()));
        self.key.extend_from_slice(sample.calls.map_or(&[], |calls| calls.bytes()));
        for address in &self.addresses[..unwound.unwrap_or(0)] {
            self.key.extend_from_slice(&address.to_ne_bytes());
        }
        if let Some(known) = self.seen.get(&self.key) {
            return known;
        }
        self.build_stack(in_user, unwound, sample);
        let row = self.assembly.row(&self.stack, task.thread.labels);
        let (sums, budget) = (&mut self.sums, self.assembly.budget());
        let sum = *self.sum_of.entry((row, event)).or_insert_with(|| {
            budget.has_room(SUM);
            sums.push(Sum { row, event, count: 0, value: 0 });
            sums.len() - 1
        });
        if self.seen.charged() > self.most_seen {
            self.forget_seen();
        }
        self.seen.insert(&self.key, sum);
        sum
    }

    /// Unwinds the dump of a sample's user stack, if it has one, and returns how many addresses were found.
    fn unwind(&mut self, sample: &Sample<'_>, dump: Option<DumpPlace>) -> Option<usize> {
        let registers = sample.registers?.for_unwinding()?;
        let process = self.processes.entry(sample.pid);
        process.unwound = process.unwound.saturating_add(1);
        if process.unwound == MANY_UNWOUND && self.remembered < MAX_REMEMBERED {
            self.remembered += 1;
            process.space.remember_rules(true);
        }
        let modules = process.space.modules();
        let addresses = &mut self.addresses;
        let mut walk_over =
            |stack: &[u8]| walk(modules, &registers, &mut Dump::new(registers.sp, stack), addresses);
        let unwound = match (dump, self.file) {
            (Some(dump), Some(file)) => self.dumps.unwind(file, dump, sample.stack, walk_over)?,
            _ if sample.stack.is_empty() => return None,
            _ => walk_over(sample.stack),
        };
        self.problems.truncated += u64::from(!unwound.end.is_rooted());
        Some(unwound.depth)
    }

    /// Builds the stack of a sample, leaf first: the kernel's part, then the user's.
    fn build_stack(&mut self, in_user: bool, unwound: Option<usize>, sample: &Sample<'_>) {
        self.stack.clear();
        if let Some(chain) = sample.callchain {
            self.chain(sample, chain, in_user, unwound.is_some());
        }
        let process = self.processes.entry(sample.pid);
        for &address in &self.addresses[..unwound.unwrap_or(0)] {
            let budget = self.assembly.budget().clone();
            self.stack.push(process.location(&mut self.assembly.builder, address, &budget));
        }
        if self.stack.is_empty() && sample.ip != 0 {
            let pid = if in_user { sample.pid } else { KERNEL };
            self.push(pid, sample.ip);
        }
    }

    fn chain(&mut self, sample: &Sample<'_>, chain: WordArray<'_>, starts_in_user: bool, skip_user: bool) {
        let start = if starts_in_user { callchain::USER } else { callchain::KERNEL };
        for (context, address) in callchain_frames(chain.iter(), start) {
            let in_user = matches!(context, callchain::USER | callchain::GUEST_USER);
            if !(in_user && skip_user) {
                self.push(if in_user { sample.pid } else { KERNEL }, address);
            }
            // The processor knows the callers of the innermost user frame better than frame pointers do.
            if let Some(calls) = sample.calls.filter(|_| in_user) {
                calls.iter().step_by(3).for_each(|from| self.push(sample.pid, from));
                return;
            }
        }
    }

    fn push(&mut self, pid: u32, address: u64) {
        let process = self.processes.entry(pid);
        let budget = self.assembly.budget().clone();
        self.stack.push(process.location(&mut self.assembly.builder, address, &budget));
    }

    pub(super) fn finish(mut self, features: &Features, notes: &mut Notes) -> Result<Profile> {
        let samples = self.assembly.column("samples", "count");
        let (columns, kinds) = self.columns(features);
        for sum in &self.sums {
            self.assembly.add(sum.row, samples, sum.count);
            self.assembly.add(sum.row, columns[sum.event], sum.value);
        }
        let counted = self.events.iter().filter(|event| event.samples > 0).count();
        match self.events.iter().position(|event| event.samples > 0) {
            Some(only) if counted == 1 => self.assembly.events_count(columns[only]),
            _ => self.assembly.events_count_samples(samples),
        }
        if let Some(kind) = preferred_event(kinds.iter().map(String::as_str)) {
            self.assembly.builder.set_default_sample_type(kind);
        }
        if !features.command.is_empty() {
            self.assembly.builder.comment(&format!("perf: {}", features.command.join(" ")));
        }
        self.note_problems(features, notes);
        let quality = self.quality();
        let mut profile = self.assembly.finish()?;
        let engine = profile.intern("perf");
        profile.quality = Some(Quality { engine, ..quality });
        set_build_ids(&mut profile, features);
        Ok(profile)
    }

    /// Returns a column for each event that was sampled, or for the first event if none was; and what they count.
    fn columns(&mut self, features: &Features) -> (Vec<usize>, Vec<String>) {
        let (mut columns, mut kinds) = (Vec::new(), Vec::new());
        for (number, event) in self.events.iter().enumerate() {
            let by_id = event.ids.iter().find_map(|id| features.names_by_id.get(id));
            let name = features.event_names.get(number).or(by_id).cloned();
            let name = name.unwrap_or_else(|| event.attr.plain_name());
            let (kind, unit) = event_value_type(&name[..plain_event(name.as_bytes()).len()]);
            let used =
                event.samples > 0 || (number == 0 && self.events.iter().all(|event| event.samples == 0));
            columns.push(if used { self.assembly.column(&kind, unit) } else { 0 });
            if used {
                kinds.push(kind);
            }
        }
        (columns, kinds)
    }

    fn quality(&self) -> Quality {
        let frequency = self.events.iter().find_map(|event| event.attr.frequency());
        let asked = frequency.unwrap_or(0).saturating_mul(1000);
        let samples: u64 = self.events.iter().map(|event| event.samples).sum();
        // perf says neither how long the program ran nor what it used itself, so the rate it reached is not known.
        Quality {
            asked_millihertz: asked,
            samples,
            lost: self.problems.lost,
            truncated: self.problems.truncated,
            ..Quality::default()
        }
    }

    fn note_problems(&mut self, features: &Features, notes: &mut Notes) {
        let problems = &mut self.problems;
        for (file, used) in &problems.used_files {
            if features.build_ids.get(file).is_some_and(|recorded| recorded != used) {
                problems.changed_files.insert(file.clone());
            }
        }
        if self.cut {
            notes.push("perf.data is truncated: the recording was not finished".into());
        }
        if problems.lost > 0 {
            notes.push(format!("perf lost {} samples", problems.lost));
        }
        if problems.has_jitdump {
            let inject = "perf inject --jit -i perf.data -o named.data";
            notes.push(format!("JIT-compiled code has no names; add them with: {inject}"));
        }
        if problems.truncated > 0 {
            notes.push(match problems.truncated {
                1 => "1 stack does not reach the start of its thread".to_owned(),
                count => format!("{count} stacks do not reach the start of their thread"),
            });
        }
        if problems.unreadable > 0 {
            notes.push(format!("{} records could not be read", problems.unreadable));
        }
        if !problems.missing_files.is_empty() {
            notes.push(format!("missing files, so stacks end there: {}", join(&problems.missing_files)));
        }
        if !problems.changed_files.is_empty() {
            notes.push(format!(
                "files changed since the recording, so stacks may be wrong: {}",
                join(&problems.changed_files)
            ));
        }
    }
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use flamelet_profile::Limits;

    use super::*;

    #[test]
    fn damaged_counts_of_lost_samples_are_survived() {
        let mut replay = Replay::new(&FormatOptions::default(), &Budget::new(Limits::SERVICE));
        for kind in [record_kind::LOST, record_kind::LOST_SAMPLES] {
            let header = [&kind.to_le_bytes()[..], &[0, 0, 24, 0]].concat();
            replay.record(&[&header[..], &[0xff; 16]].concat(), None);
        }
        assert_eq!((replay.problems.lost, replay.problems.unreadable), (u64::MAX, 0));
    }
}
