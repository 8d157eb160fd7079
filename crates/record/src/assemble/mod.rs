//! Turns what was collected into a profile.

mod call_stacks;
mod columns;

use flamelet_profile::{
    Assembler, Event, Label, LabelSetId, LocationId, MappingId, Profile, StackId, Thread, ThreadId,
};
use flamelet_unwind::Module;
use rustc_hash::FxHashMap;

use crate::collect::{
    CallKey, CallTotals, Findings, MappingNumber, Meaning, SampleRow, StackNumber, is_kernel,
};
use crate::names::{FoundNames, calls, waits};
use call_stacks::{Elsewhere, seen_stacks, shares};
pub(crate) use columns::Columns;

/// Makes a profile of what was collected so far. Locations have addresses; only the kernel's and those of generated
/// code have names.
pub(crate) fn profile(
    findings: &Findings,
    columns: &Columns,
    names: &mut FoundNames,
    start_nanos: i64,
) -> Profile {
    let mut recording = RecordedProfile {
        findings,
        columns,
        assembler: Assembler::new(&columns.types()),
        locations: Locations::new(findings, names),
        thread_labels: Vec::with_capacity(findings.threads.rows.len()),
    };
    recording.map_program();
    recording.add_threads();
    let samples: Vec<Option<u32>> = findings.rows.rows.iter().map(|row| recording.add_row(row)).collect();
    recording.add_syscalls();
    recording.add_events(&samples);
    recording.finish(start_nanos)
}

/// A profile that is being assembled from a recording.
struct RecordedProfile<'a> {
    findings: &'a Findings,
    columns: &'a Columns,
    assembler: Assembler<StackNumber>,
    locations: Locations<'a>,
    /// Indexed like [`Findings::threads`].
    thread_labels: Vec<[Label; 4]>,
}

impl RecordedProfile<'_> {
    /// By convention the first mapping is the program.
    fn map_program(&mut self) {
        let is_program =
            |name: &str| name.starts_with('/') && !name.starts_with("//") && !name.contains(".so");
        let mappings = &self.findings.stacks.table.mappings;
        if let Some(program) = mappings.iter().position(|mapping| is_program(&mapping.module.name)) {
            self.locations.mapping(&mut self.assembler, program as u32);
        }
    }

    /// Adds the threads in the order of the findings, so that the timeline can use the same indices.
    fn add_threads(&mut self) {
        let threads = &self.findings.threads;
        let Assembler { builder, timeline, .. } = &mut self.assembler;
        for seen in &threads.rows {
            let process = &threads.process_names[seen.process as usize];
            let (pid, tid) = (seen.of.pid, seen.of.tid);
            self.thread_labels.push([
                builder.text_label("thread", &seen.name),
                builder.number_label("tid", tid.into(), ""),
                builder.number_label("pid", pid.into(), ""),
                builder.text_label("process", process),
            ]);
            let (name, process) = (builder.string(&seen.name), builder.string(process));
            timeline.thread(Thread { pid: pid.into(), tid: tid.into(), name, process });
        }
    }

    /// Adds a row. Returns its sample if it counts in the timeline.
    fn add_row(&mut self, row: &SampleRow) -> Option<u32> {
        if matches!(row.key.meaning, Meaning::Syscall { .. }) {
            return None;
        }
        let stack = self.stack(row.key.stack);
        let wait = match row.key.meaning {
            Meaning::OffCpu { is_preempted: true } => Some("preempted"),
            Meaning::OffCpu { is_preempted: false } => Some(self.wait(row.key.stack)),
            _ => None,
        };
        let wait = wait.map(|wait| ("wait", wait));
        let labels = self.labels(row.key.thread, wait.as_slice());
        let values = self.columns.values(row);
        let sample = self.assembler.builder.merge_sample(stack, labels, &values);
        let (column, _) = self.columns.of_timeline()?;
        (values[column] != 0).then_some(sample as u32)
    }

    fn labels(&mut self, thread: u32, extra: &[(&str, &str)]) -> LabelSetId {
        let builder = &mut self.assembler.builder;
        let mut labels = self.thread_labels[thread as usize].to_vec();
        labels.extend(extra.iter().map(|(key, text)| builder.text_label(key, text)));
        builder.labels(&labels)
    }

    /// Returns what a thread with this stack waits for.
    fn wait(&self, stack: StackNumber) -> &'static str {
        let locations = self.findings.stacks.table.list(stack).iter();
        let addresses = locations.map(|&at| self.findings.stacks.table.locations[at as usize].address);
        let in_kernel = addresses.take_while(|&address| is_kernel(address));
        let names = in_kernel.filter_map(|address| self.locations.names.kernel(address));
        let by_call =
            || self.findings.waits.get(&stack).map(|&call| waits::wait_of_call(&calls::syscall(call)));
        waits::wait_kind(names).or_else(by_call).unwrap_or("unknown")
    }

    fn stack(&mut self, stack: StackNumber) -> StackId {
        let (findings, locations) = (self.findings, &mut self.locations);
        self.assembler.stack(stack, |assembler, frames| {
            frames.extend(
                findings.stacks.table.list(stack).iter().map(|&at| locations.location(assembler, at)),
            );
        })
    }

    /// Adds the system calls. All are counted, but only some have their stacks taken, so each thread's counts are
    /// distributed over the stacks that it was seen to make the call from. A thread too short to be seen gets one of the
    /// stacks from which its program makes that call elsewhere.
    fn add_syscalls(&mut self) {
        let findings = self.findings;
        let mut seen = seen_stacks(findings);
        let mut calls: Vec<(CallKey, CallTotals)> =
            findings.syscalls.by_thread.iter().map(|(&key, &totals)| (key, totals)).collect();
        calls.sort_by_key(|(key, _)| *key);
        let mut elsewhere: FxHashMap<(&str, i64), Elsewhere> = FxHashMap::default();
        let mut unseen = Vec::new();
        for (key, totals) in calls {
            let Some(stacks) = seen.remove(&key).map(|stacks| stacks.best(totals.calls)) else {
                unseen.push((key, totals));
                continue;
            };
            let program = findings.threads.program(key.thread);
            elsewhere.entry((program, key.number)).or_default().add(&stacks);
            self.add_syscall(key, totals, &stacks);
        }
        let mut borrowed = 0;
        for (key, totals) in unseen {
            let same = elsewhere.get_mut(&(findings.threads.program(key.thread), key.number));
            let stack = same.and_then(Elsewhere::next);
            borrowed += if stack.is_some() { totals.calls } else { 0 };
            self.add_syscall(key, totals, stack.as_slice());
        }
        self.note_borrowed(borrowed);
    }

    /// Says how many calls have the stacks of other threads, if they are many.
    fn note_borrowed(&mut self, borrowed: u64) {
        let all: u64 = self.findings.syscalls.by_thread.values().map(|totals| totals.calls).sum();
        if borrowed * 100 > all {
            self.assembler.builder.comment(&format!(
                "{borrowed} of {all} system calls were made by threads that were too short-lived to be sampled; they are shown under stacks \
                 from which the same program made the same call"
            ));
        }
    }

    /// Adds one thread's counts of one system call, weighted by the stacks that it was seen to make the call from.
    fn add_syscall(&mut self, key: CallKey, totals: CallTotals, seen: &[(StackNumber, u64)]) {
        let labels = self.call_labels(key);
        let totals = [totals.calls, totals.errors, totals.nanos];
        let weights: Vec<u64> = seen.iter().map(|(_, weight)| *weight).collect();
        for (at, share) in shares(&totals, &weights).into_iter().enumerate() {
            let Some(values) = self.columns.syscall_values(share) else { return };
            let stack = match seen.get(at) {
                Some((stack, _)) => self.stack(*stack),
                None => self.assembler.builder.stack(&[]),
            };
            if share != [0; 3] {
                self.assembler.builder.merge_sample(stack, labels, &values);
            }
        }
    }

    fn call_labels(&mut self, key: CallKey) -> LabelSetId {
        let name = calls::syscall(key.number);
        match key.arguments.map(|arguments| self.findings.arguments.text(arguments)) {
            Some(arguments) if !arguments.is_empty() => {
                self.labels(key.thread, &[("syscall", &name), ("args", arguments)])
            }
            _ => self.labels(key.thread, &[("syscall", &name)]),
        }
    }

    /// Adds the times of the rows whose samples count in the timeline.
    fn add_events(&mut self, samples: &[Option<u32>]) {
        let Some((_, all_one)) = self.columns.of_timeline() else { return };
        let findings = self.findings;
        self.assembler.timeline.events(findings.rows.moments.iter().filter_map(|moment| {
            let thread = findings.rows.rows[moment.row as usize].key.thread;
            let value = if all_one { 1 } else { i64::try_from(moment.amount).unwrap_or(i64::MAX) };
            Some(Event {
                time: moment.time.saturating_sub(findings.started_at),
                sample: samples[moment.row as usize]?,
                thread: ThreadId::from_index(thread as usize),
                value,
            })
        }));
    }

    fn finish(self, start_nanos: i64) -> Profile {
        let Assembler { mut builder, timeline, .. } = self.assembler;
        builder.set_default_sample_type(self.columns.default_kind());
        builder.header_mut().time_nanos = start_nanos;
        // Added here so that checkpoints have it too.
        self.findings.timeline_note().into_iter().for_each(|note| builder.comment(&note));
        let timeline = self.columns.of_timeline().map(|(column, _)| timeline.finish(start_nanos, column));
        builder.finish_with(timeline, None)
    }
}

/// Maps the locations of the findings to those of the profile.
struct Locations<'a> {
    findings: &'a Findings,
    names: &'a mut FoundNames,
    /// Indexed by the findings' location numbers.
    known: Vec<Option<LocationId>>,
}

impl<'a> Locations<'a> {
    fn new(findings: &'a Findings, names: &'a mut FoundNames) -> Self {
        Self { findings, names, known: vec![None; findings.stacks.table.locations.len()] }
    }

    fn location(&mut self, assembler: &mut Assembler<StackNumber>, at: u32) -> LocationId {
        if let Some(id) = self.known[at as usize] {
            return id;
        }
        let seen = self.findings.stacks.table.locations[at as usize];
        let (mapping, name) = match seen.mapping {
            Some(number) => {
                let pid = self.findings.stacks.table.mappings[number as usize].pid;
                let mapping = self.mapping(assembler, number);
                let generators = &self.findings.stacks.spaces.generators;
                (Some(mapping), pid.and_then(|pid| self.names.generated(generators, pid, seen.address)))
            }
            None if is_kernel(seen.address) => {
                (Some(assembler.kernel(self.names.has_kernel())), self.names.kernel(seen.address))
            }
            None => (None, None),
        };
        let id = match name {
            Some(name) => assembler.builder.named_address(mapping, seen.address, name, "", 0),
            None => assembler.builder.address(mapping, seen.address),
        };
        self.known[at as usize] = Some(id);
        id
    }

    fn mapping(&self, assembler: &mut Assembler<StackNumber>, number: MappingNumber) -> MappingId {
        let module = &self.findings.stacks.table.mappings[number as usize].module;
        let Module { start, end, file_offset, name, .. } = module;
        assembler.module(number.into(), |builder| {
            builder.file_mapping(*start..*end, *file_offset, name, &module.build_id_hex())
        })
    }
}
