//! Turns the counts of processes into a profile.

use std::path::Path;
use std::time::Duration;

use flamelet_preload_ledger::modules::ModuleLine;
use flamelet_preload_ledger::{FIRST_FRAME, NO_ROOM, ROOT, ReadNode, SIZE_NODE, TRUNCATED, address_parts};
use flamelet_profile::{
    Assembler, Label, LabelSetId, LocationId, MappingId, Profile, Quality, allocation_frames,
};
use rustc_hash::FxHashMap;

use super::heap_summary::{HeapSummary, ProcessFiles};

const TYPES: [(&str, &str); 6] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("peak_space", "bytes"),
    ("temporary_objects", "count"),
];
/// The sample type to show first: what is left at the end of a program that cleans up says little.
const DEFAULT_TYPE: &str = "peak_space";
/// How much work the files of all processes may cause: frames of stacks, each of which takes four bytes in the profile,
/// and as many steps for a row and for a search among sixteen modules. A recorded process may have written anything.
const MOST_STEPS: usize = 1 << 27;
const ROW_STEPS: usize = 16;
const MODULES_PER_STEP: usize = 16;

/// Makes a profile of all processes. Addresses have no names yet.
pub(super) fn profile(processes: &[ProcessFiles], elapsed: Duration) -> (Profile, HeapSummary) {
    profile_within(processes, elapsed, MOST_STEPS)
}

/// Does the same with a number of steps, after which allocations are counted without their stack.
fn profile_within(processes: &[ProcessFiles], elapsed: Duration, mut steps: usize) -> (Profile, HeapSummary) {
    let mut assembler = Assembler::new(&TYPES);
    let mut summary = HeapSummary { elapsed, ..HeapSummary::default() };
    for (number, process) in processes.iter().enumerate() {
        let mut heap = ProcessHeap::new(number, process, &mut assembler, &mut summary);
        heap.steps = steps;
        heap.add();
        steps = heap.steps;
    }
    let builder = &mut assembler.builder;
    let mean = processes.first().map_or(1, |process| process.counts.mean.max(1) as i64);
    builder.set_period("space", "bytes", mean);
    builder.set_default_sample_type(DEFAULT_TYPE);
    builder.set_drop_frames(&allocation_frames());
    let header = builder.header_mut();
    header.time_nanos = processes.iter().map(|process| process.counts.started_nanos).min().unwrap_or(0);
    header.duration_nanos = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
    (assembler.finish(), summary)
}

/// Adds the quality to the profile.
pub(super) fn judge(profile: &mut Profile, summary: &HeapSummary) {
    profile.quality = Some(Quality {
        engine: profile.intern("preload"),
        samples: summary.recorded,
        lost: summary.lost,
        truncated: summary.truncated + summary.without_stack,
        unresolved: profile.unnamed_locations() as u64,
        ..Quality::default()
    });
    summary.notes.iter().for_each(|note| profile.add_comment(note));
}

/// What samples of one size stand for.
#[derive(Clone, Copy)]
struct Scale {
    objects: f64,
    /// Set if allocations are sampled.
    size: Option<u64>,
}

impl Scale {
    const ONE: Self = Self { objects: 1.0, size: None };

    /// Every byte is hit with a probability of one in `mean`, so an object of `size` is seen with a probability of
    /// `1 - exp(-size/mean)`, and each one seen stands for the inverse of that.
    fn sampled(size: u64, mean: u64) -> Self {
        let chance = -(-(size.max(1) as f64) / mean.max(1) as f64).exp_m1();
        Self { objects: 1.0 / chance, size: Some(size) }
    }

    fn of(self, count: u64) -> i64 {
        match self.size {
            None => i64::try_from(count).unwrap_or(i64::MAX),
            Some(_) => (count as f64 * self.objects).round() as i64,
        }
    }
}

/// The heap of one process, while it is added to the profile.
struct ProcessHeap<'a> {
    /// Distinguishes its modules from those of other processes.
    number: usize,
    process: &'a ProcessFiles,
    assembler: &'a mut Assembler<()>,
    summary: &'a mut HeapSummary,
    labels: [Label; 2],
    locations: FxHashMap<u64, LocationId>,
    /// How many are left of [`MOST_STEPS`].
    steps: usize,
}

impl<'a> ProcessHeap<'a> {
    fn new(
        number: usize,
        process: &'a ProcessFiles,
        assembler: &'a mut Assembler<()>,
        summary: &'a mut HeapSummary,
    ) -> Self {
        let name = Path::new(&process.modules.program).file_name().unwrap_or_default().to_string_lossy();
        let labels = [
            assembler.builder.number_label("pid", process.counts.pid.into(), ""),
            assembler.builder.text_label("process", &name),
        ];
        Self { number, process, assembler, summary, labels, locations: FxHashMap::default(), steps: 0 }
    }

    fn add(&mut self) {
        let counts = &self.process.counts;
        // By convention the first mapping is the program.
        let is_program = |path: &str| path == self.process.modules.program;
        if let Some(at) = self.process.modules.modules.iter().position(|module| is_program(&module.path)) {
            self.mapping(at);
        }
        self.summary.lost = self.summary.lost.saturating_add(counts.missed);
        self.summary.processes += usize::from(counts.rows.iter().any(|row| row.allocations > 0));
        if counts.mean == 0 {
            self.summary.peak = self.summary.peak.saturating_add(counts.peak);
        }
        for number in 0..counts.rows.len() as u32 {
            if counts.rows[number as usize].allocations > 0 {
                self.add_row(number);
            }
        }
    }

    fn add_row(&mut self, number: u32) {
        let row = self.row(number);
        let (leaf, scale) = match row.address & SIZE_NODE {
            SIZE_NODE if number >= FIRST_FRAME => {
                let size = row.address & !SIZE_NODE;
                (row.parent, Scale::sampled(size, self.process.counts.mean))
            }
            _ => (number, Scale::ONE),
        };
        let (stack, root) = self.stack(leaf);
        let stack = self.assembler.builder.stack(&stack);
        let labels = self.labels(scale.size);
        let values = [
            scale.of(row.allocations),
            scale.of(row.allocated),
            scale.of(row.live),
            scale.of(row.live_bytes),
            scale.of(row.peak),
            scale.of(row.temporary),
        ];
        self.assembler.builder.merge_sample(stack, labels, &values);
        self.sum_up(&row, root, &values, scale.size.is_some());
    }

    fn labels(&mut self, size: Option<u64>) -> LabelSetId {
        let (builder, [pid, process]) = (&mut self.assembler.builder, self.labels);
        match size {
            Some(size) => {
                let bytes = builder.number_label("bytes", size as i64, "bytes");
                builder.labels(&[pid, process, bytes])
            }
            None => builder.labels(&[pid, process]),
        }
    }

    fn sum_up(&mut self, row: &ReadNode, root: u32, values: &[i64; 6], is_sampled: bool) {
        let [objects, space, live, live_bytes, peak, temporary] = values.map(|value| value.max(0) as u64);
        let summary = &mut *self.summary;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut summary.allocations, objects);
        add(&mut summary.allocated, space);
        add(&mut summary.live, live);
        add(&mut summary.live_bytes, live_bytes);
        add(&mut summary.temporary, temporary);
        add(&mut summary.recorded, row.allocations);
        match root {
            TRUNCATED => add(&mut summary.truncated, row.allocations),
            NO_ROOM => add(&mut summary.without_stack, row.allocations),
            _ => {}
        }
        if is_sampled {
            add(&mut summary.peak, peak);
        }
    }

    fn row(&self, number: u32) -> ReadNode {
        self.process.counts.rows.get(number as usize).copied().unwrap_or_default()
    }

    /// Returns the locations of a stack, leaf first, and how it ends.
    fn stack(&mut self, leaf: u32) -> (Vec<LocationId>, u32) {
        let mut locations = Vec::new();
        let mut number = if self.may_work(ROW_STEPS) { leaf } else { NO_ROOM };
        while number >= FIRST_FRAME {
            if !self.may_work(1) {
                locations.clear();
                number = NO_ROOM;
                break;
            }
            let row = self.row(number);
            locations.push(self.location(row.address));
            number = row.parent;
        }
        if number == NO_ROOM {
            locations.push(self.assembler.builder.named_frame("[stacks that did not fit]"));
        }
        (locations, if number == ROOT || number == NO_ROOM { number } else { TRUNCATED })
    }

    /// Takes steps; returns whether there were so many left.
    fn may_work(&mut self, steps: usize) -> bool {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    fn location(&mut self, address: u64) -> LocationId {
        if let Some(known) = self.locations.get(&address) {
            return *known;
        }
        let (place, era) = address_parts(address);
        let modules = &self.process.modules;
        let may_look = self.may_work(modules.modules.len() / MODULES_PER_STEP);
        let module = may_look.then(|| modules.find(place, era)).flatten();
        let mapping = module.map(|at| self.mapping(at));
        let location = self.assembler.builder.address(mapping, place);
        self.locations.insert(address, location);
        location
    }

    fn mapping(&mut self, at: usize) -> MappingId {
        let ModuleLine { start, end, file_offset, path, build_id, .. } = &self.process.modules.modules[at];
        self.assembler.module((self.number as u64) << 32 | at as u64, |builder| {
            builder.file_mapping(*start..*end, *file_offset, path, build_id)
        })
    }
}

#[cfg(test)]
mod tests {
    use flamelet_preload_ledger::AllocationCounts;
    use flamelet_preload_ledger::modules::Modules;

    use super::*;

    /// A process of one chain of calls, in which each function allocates: with `n` functions, their stacks have n²/2
    /// frames.
    fn chain(nodes: u32) -> ProcessFiles {
        let row = |number: u32| ReadNode {
            address: 0x1000 + u64::from(number),
            parent: if number > FIRST_FRAME { number - 1 } else { ROOT },
            allocations: u64::from(number >= FIRST_FRAME),
            ..ReadNode::default()
        };
        let rows = (0..FIRST_FRAME + nodes).map(row).collect();
        let counts = AllocationCounts { pid: 1, started_nanos: 0, mean: 0, missed: 0, peak: u64::MAX, rows };
        ProcessFiles { counts, modules: Modules::default() }
    }

    #[test]
    fn a_file_that_stands_for_very_long_stacks_is_read_as_far_as_there_is_room() {
        let of = |processes: &[ProcessFiles], steps| profile_within(processes, Duration::ZERO, steps);
        let (profile, summary) = of(&[chain(100)], 10_000);
        assert_eq!((profile.sample_count(), summary.without_stack, summary.recorded), (100, 0, 100));
        let (profile, summary) = of(&[chain(100), chain(100)], 5_000);
        assert_eq!((profile.total(0), summary.recorded), (200, 200), "all are counted");
        assert!((100..200).contains(&summary.without_stack), "{summary:?}");
        let frames: usize = profile.samples().map(|sample| profile.stack(sample.stack).len()).sum();
        assert!(frames <= 5_000, "{frames}");
    }

    #[test]
    fn a_sample_stands_for_what_it_was_likely_to_miss() {
        assert_eq!(Scale::ONE.of(7), 7);
        assert_eq!(Scale::sampled(1 << 30, 524_288).of(3), 3);
        assert_eq!(Scale::sampled(1, 524_288).of(2), 1_048_577);
    }
}
