//! From what was collected to a profile.

use flamelet_profile::{
    Event, KERNEL_MAPPING, Label, LabelSetId, Line, LocationId, Mapping, MappingId, MappingSymbols, Profile,
    ProfileBuilder, StackId, Thread, ThreadId, Timeline,
};
use flamelet_symbol::kernel::KernelSymbols;
use rustc_hash::FxHashMap;

use crate::collect::{Intake, Meaning, Row, StackNumber, SyscallStats};
use crate::names::calls;
use crate::names::perf_map::PerfMap;
use crate::names::waits;

/// What the values of samples are, given what is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    types: Vec<(String, &'static str)>,
    cpu: Option<usize>,
    off_cpu: Option<usize>,
    wall: Option<usize>,
    syscalls: Option<usize>,
    named: Option<usize>,
}

impl Columns {
    pub(crate) fn new(options: &crate::Options) -> Self {
        let mut types: Vec<(String, &'static str)> = Vec::new();
        let mut add = |columns: &[(&str, &'static str)]| {
            let first = types.len();
            types.extend(columns.iter().map(|&(kind, unit)| (kind.to_owned(), unit)));
            first
        };
        let cpu = options.cpu.then(|| add(&[("samples", "count"), ("cpu", "nanoseconds")]));
        let off_cpu = options.off_cpu.then(|| add(&[("off_cpu", "nanoseconds")]));
        let wall = (options.cpu && options.off_cpu).then(|| add(&[("wall", "nanoseconds")]));
        let calls = [("syscalls", "count"), ("syscall_errors", "count"), ("syscall_time", "nanoseconds")];
        let syscalls = options.syscalls.then(|| add(&calls));
        let named = (!options.events.is_empty()).then_some(types.len());
        types.extend(options.events.iter().map(|name| (name.clone(), "count")));
        Self { types, cpu, off_cpu, wall, syscalls, named }
    }

    /// The column that the timeline's shares are given in, and whether they are all 1.
    fn of_timeline(&self) -> Option<(usize, bool)> {
        let time = self.wall.or(self.off_cpu);
        time.map(|column| (column, false))
            .or_else(|| self.cpu.map(|column| (column, true)))
            .or_else(|| self.named.map(|column| (column, false)))
    }

    /// What to show first.
    fn default_kind(&self) -> &str {
        let column = self.cpu.map(|column| column + 1).or(self.off_cpu).or(self.syscalls).or(self.named);
        column.map_or("", |column| self.types[column].0.as_str())
    }

    fn values(&self, row: &Row) -> Vec<i64> {
        let mut values = vec![0; self.types.len()];
        let (count, amount) = (row.count as i64, i64::try_from(row.amount).unwrap_or(i64::MAX));
        let mut set = |column: Option<usize>, value| column.into_iter().for_each(|at| values[at] = value);
        match row.key.meaning {
            Meaning::Cpu => {
                set(self.cpu, count);
                set(self.cpu.map(|column| column + 1), amount);
                set(self.wall, amount);
            }
            Meaning::OffCpu { .. } => {
                set(self.off_cpu, amount);
                set(self.wall, amount);
            }
            Meaning::Syscall { .. } => {}
            Meaning::Named(at) => set(self.named.map(|column| column + at), amount),
        }
        values
    }
}

/// Makes the profile of what was collected so far. Locations have addresses; only those of the kernel and of
/// generated code have names.
pub(crate) fn profile(
    intake: &Intake,
    columns: &Columns,
    kernel: Option<&KernelSymbols>,
    start_nanos: i64,
) -> Profile {
    let types: Vec<(&str, &str)> = columns.types.iter().map(|(kind, unit)| (kind.as_str(), *unit)).collect();
    let mut assembly = Assembly {
        intake,
        columns,
        kernel,
        builder: ProfileBuilder::new(&types),
        mappings: vec![None; intake.stacks.mappings.len()],
        kernel_mapping: None,
        locations: vec![None; intake.stacks.locations.len()],
        stacks: vec![None; intake.stacks.len()],
        perf_maps: FxHashMap::default(),
    };
    assembly.main_binary();
    let rows: Vec<Option<u32>> = intake.rows.rows.iter().map(|row| assembly.row(row)).collect();
    assembly.syscalls();
    let timeline = assembly.timeline(&rows, start_nanos);
    let default_kind = assembly.builder.string(columns.default_kind());
    let header = assembly.builder.header_mut();
    header.time_nanos = start_nanos;
    header.default_sample_type = default_kind;
    let mut profile = assembly.builder.finish_with(timeline, None);
    // Here, so that what is saved while it runs has it too.
    intake.timeline_note().into_iter().for_each(|note| profile.add_comment(&note));
    profile
}

struct Assembly<'a> {
    intake: &'a Intake,
    columns: &'a Columns,
    kernel: Option<&'a KernelSymbols>,
    builder: ProfileBuilder,
    mappings: Vec<Option<MappingId>>,
    kernel_mapping: Option<MappingId>,
    locations: Vec<Option<LocationId>>,
    stacks: Vec<Option<StackId>>,
    perf_maps: FxHashMap<u32, Option<PerfMap>>,
}

impl Assembly<'_> {
    /// By convention the first mapping is the program.
    fn main_binary(&mut self) {
        let is_program =
            |name: &str| name.starts_with('/') && !name.starts_with("//") && !name.contains(".so");
        let mappings = &self.intake.stacks.mappings;
        let program = mappings.iter().position(|mapping| is_program(&mapping.module.name));
        if let Some(program) = program {
            self.mapping(program as u32);
        }
    }

    fn row(&mut self, row: &Row) -> Option<u32> {
        if matches!(row.key.meaning, Meaning::Syscall { .. }) {
            return None;
        }
        let stack = self.stack(row.key.stack);
        let wait = match row.key.meaning {
            Meaning::OffCpu { is_preempted: true } => Some("preempted"),
            Meaning::OffCpu { is_preempted: false } => Some(self.wait(row.key.stack)),
            _ => None,
        };
        let extra = wait.map(|wait| self.builder.text_label("wait", wait));
        let labels = self.labels(row.key.thread, extra);
        let values = self.columns.values(row);
        Some(self.builder.merge_sample(stack, labels, &values) as u32)
    }

    fn labels(&mut self, thread: u32, extra: Option<Label>) -> LabelSetId {
        let seen = &self.intake.threads.rows[thread as usize];
        let process = &self.intake.threads.process_names[seen.process as usize];
        let mut labels = vec![
            self.builder.text_label("thread", &seen.name),
            self.builder.number_label("tid", seen.of.tid.into(), ""),
            self.builder.number_label("pid", seen.of.pid.into(), ""),
            self.builder.text_label("process", process),
        ];
        labels.extend(extra);
        self.builder.labels(&labels)
    }

    /// What a thread with this stack waits for.
    fn wait(&self, stack: StackNumber) -> &'static str {
        let locations = self.intake.stacks.list(stack).iter();
        let addresses = locations.map(|&at| self.intake.stacks.locations[at as usize].address);
        let in_kernel = addresses.take_while(|&address| address >> 63 != 0);
        let names = in_kernel.filter_map(|address| self.kernel?.name(address));
        let by_call =
            || self.intake.waits.get(&stack).map(|&call| waits::wait_of_call(&calls::syscall(call)));
        waits::wait_kind(names).or_else(by_call).unwrap_or("unknown")
    }

    fn stack(&mut self, stack: StackNumber) -> StackId {
        let at = stack.0 as usize;
        if let Some(id) = self.stacks[at] {
            return id;
        }
        let intake = self.intake;
        let list: Vec<LocationId> =
            intake.stacks.list(stack).iter().map(|&location| self.location(location)).collect();
        let id = self.builder.stack(&list);
        self.stacks[at] = Some(id);
        id
    }

    fn location(&mut self, at: u32) -> LocationId {
        if let Some(id) = self.locations[at as usize] {
            return id;
        }
        let seen = self.intake.stacks.locations[at as usize];
        let id = match seen.mapping {
            Some(mapping) => self.user_location(mapping, seen.address),
            None if seen.address >> 63 != 0 => self.kernel_location(seen.address),
            None => self.builder.address(None, seen.address),
        };
        self.locations[at as usize] = Some(id);
        id
    }

    fn user_location(&mut self, mapping: u32, address: u64) -> LocationId {
        let id = self.mapping(mapping);
        let generated = self.intake.stacks.mappings[mapping as usize].pid.and_then(|pid| {
            let map = self.perf_maps.entry(pid).or_insert_with(|| PerfMap::of_process(pid));
            map.as_ref()?.name(address).map(str::to_owned)
        });
        match generated {
            Some(name) => self.named_location(Some(id), address, &name),
            None => self.builder.address(Some(id), address),
        }
    }

    fn kernel_location(&mut self, address: u64) -> LocationId {
        let mapping = self.kernel_mapping();
        match self.kernel.and_then(|kernel| kernel.name(address)) {
            Some(name) => self.named_location(Some(mapping), address, name),
            None => self.builder.address(Some(mapping), address),
        }
    }

    fn named_location(&mut self, mapping: Option<MappingId>, address: u64, name: &str) -> LocationId {
        let function = self.builder.named_function(name, "");
        self.builder.location(mapping, address, &[Line { function: Some(function), line: 0, column: 0 }])
    }

    fn kernel_mapping(&mut self) -> MappingId {
        if let Some(id) = self.kernel_mapping {
            return id;
        }
        let symbols = MappingSymbols { functions: self.kernel.is_some(), ..MappingSymbols::default() };
        let filename = self.builder.string(KERNEL_MAPPING);
        let (start, limit) = (1 << 63, u64::MAX);
        let id = self.builder.mapping(Mapping { start, limit, filename, symbols, ..Mapping::default() });
        self.kernel_mapping = Some(id);
        id
    }

    fn mapping(&mut self, at: u32) -> MappingId {
        if let Some(id) = self.mappings[at as usize] {
            return id;
        }
        let module = &self.intake.stacks.mappings[at as usize].module;
        let mapping = Mapping {
            start: module.start,
            limit: module.end,
            offset: module.file_offset,
            filename: self.builder.string(&module.name),
            build_id: self.builder.string(&module.build_id_hex()),
            symbols: MappingSymbols::default(),
        };
        let id = self.builder.mapping(mapping);
        self.mappings[at as usize] = Some(id);
        id
    }

    fn timeline(&mut self, rows: &[Option<u32>], start_nanos: i64) -> Option<Timeline> {
        let (value_type, all_one) = self.columns.of_timeline()?;
        let intake = self.intake;
        let counts: Vec<bool> =
            intake.rows.rows.iter().map(|row| self.columns.values(row)[value_type] != 0).collect();
        let mut events: Vec<Event> = intake
            .rows
            .moments
            .iter()
            .filter(|moment| counts[moment.row as usize])
            .filter_map(|moment| {
                let thread = intake.rows.rows[moment.row as usize].key.thread;
                let value = if all_one { 1 } else { i64::try_from(moment.amount).unwrap_or(i64::MAX) };
                Some(Event {
                    time: moment.time.saturating_sub(intake.started_at),
                    sample: rows[moment.row as usize]?,
                    thread: ThreadId::from_index(thread as usize),
                    value,
                })
            })
            .collect();
        events.sort_by_key(|event| event.time);
        let threads = intake.threads.rows.iter().map(|seen| Thread {
            pid: seen.of.pid.into(),
            tid: seen.of.tid.into(),
            name: self.builder.string(&seen.name),
            process: self.builder.string(&intake.threads.process_names[seen.process as usize]),
        });
        Some(Timeline { start_nanos, threads: threads.collect(), events, value_type })
    }

    /// System calls are all counted, but only some have their stacks taken: what each thread called is
    /// shared out to the stacks from which it was seen to call it.
    fn syscalls(&mut self) {
        let Some(first) = self.columns.syscalls else { return };
        let mut stacks: FxHashMap<(u32, i64), CallStacks> = FxHashMap::default();
        for row in &self.intake.rows.rows {
            if let Meaning::Syscall { number, is_regular } = row.key.meaning {
                stacks.entry((row.key.thread, number)).or_default().add(row, is_regular);
            }
        }
        let mut calls: Vec<(&(u32, i64), &SyscallStats)> = self.intake.syscalls.iter().collect();
        calls.sort_by_key(|(key, _)| **key);
        for (&(thread, number), stats) in calls {
            let name = calls::syscall(number);
            let label = self.builder.text_label("syscall", &name);
            let labels = self.labels(thread, Some(label));
            let seen = stacks.remove(&(thread, number)).unwrap_or_default().best();
            let totals = [stats.calls, stats.errors, stats.nanos];
            let weights: Vec<u64> = seen.iter().map(|(_, weight)| *weight).collect();
            for (at, share) in shares(&totals, &weights).into_iter().enumerate() {
                let stack = match seen.get(at) {
                    Some((stack, _)) => self.stack(*stack),
                    None => self.builder.stack(&[]),
                };
                let mut values = vec![0; self.columns.types.len()];
                values[first..first + 3].copy_from_slice(&share);
                self.builder.merge_sample(stack, labels, &values);
            }
        }
    }
}

/// The stacks from which a thread was seen to make a system call, with their weights.
#[derive(Default)]
struct CallStacks {
    regular: Vec<(StackNumber, u64)>,
    frequent: Vec<(StackNumber, u64)>,
    regular_count: u64,
}

impl CallStacks {
    fn add(&mut self, row: &Row, is_regular: bool) {
        let stack = (row.key.stack, row.amount);
        if is_regular {
            self.regular.push(stack);
            self.regular_count += row.count;
        } else {
            self.frequent.push(stack);
        }
    }

    /// Regular ones tell best who calls how often, if there are enough of them.
    fn best(self) -> Vec<(StackNumber, u64)> {
        const ENOUGH: u64 = 20;
        if self.regular_count >= ENOUGH || self.frequent.is_empty() { self.regular } else { self.frequent }
    }
}

/// Shares `totals` out by `weights`, so that each total is kept exactly. Without weights all goes to one.
fn shares(totals: &[u64; 3], weights: &[u64]) -> Vec<[i64; 3]> {
    let one = [1];
    let weights = if weights.iter().all(|&weight| weight == 0) { &one } else { weights };
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let mut before: u128 = 0;
    weights
        .iter()
        .map(|&weight| {
            let until = before + u128::from(weight);
            let part = |total: u64| {
                let at = |weight: u128| u128::from(total) * weight / sum;
                (at(until) - at(before)) as i64
            };
            let share = totals.map(part);
            before = until;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_totals() {
        let totals = [1_000_001, 7, u64::from(u32::MAX) * 1000];
        for weights in [&[][..], &[0], &[1], &[3, 1, 1], &[1, 0, 997, 2]] {
            let shared = shares(&totals, weights);
            assert_eq!(shared.len(), weights.len().max(1));
            for (column, total) in totals.iter().enumerate() {
                assert_eq!(shared.iter().map(|share| share[column]).sum::<i64>(), *total as i64);
            }
        }
    }
}
