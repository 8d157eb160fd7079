//! From collected samples to a [`Profile`].

use super::aggregate::{Aggregate, RowKey, ThreadKey};
use super::facts::Facts;
use flamelet_profile::{
    Assembler, Event, KERNEL_START, LabelSetId, LocationId, MappingId, Observed, Profile, Quality, StackId,
    Thread, ThreadId,
};
use flamelet_unwind::{Era, History, Module};
use rustc_hash::FxHashMap;
use std::ptr;

/// Builds one profile from `parts`, which follow each other in time.
pub(crate) fn profile(parts: &[&Aggregate], facts: &Facts, modules: &History) -> Profile {
    let mut profile = CpuProfile {
        assembler: Assembler::new(&[("samples", "count"), ("cpu", "nanoseconds")]),
        modules,
        threads: FxHashMap::default(),
        start: facts.start,
        period: facts.period(),
    };
    profile.map_program();
    parts.iter().for_each(|part| profile.add(part));
    profile.finish(parts, facts)
}

/// The column of the CPU time, in which weights are given.
const CPU: usize = 1;

/// A stack of the current part, what was loaded at the time, and whether it reaches its thread's start.
type StackKey = (u32, Era, bool);

/// A CPU profile that is being assembled.
struct CpuProfile<'a> {
    assembler: Assembler<StackKey>,
    modules: &'a History,
    threads: FxHashMap<ThreadKey, ThreadId>,
    start: u64,
    period: i64,
}

impl CpuProfile<'_> {
    /// Adds the program's mapping first: readers take the first mapping for the program itself.
    fn map_program(&mut self) {
        let Ok(program) = std::env::current_exe() else { return };
        let modules = self.modules;
        if let Some(module) = modules.now().find(|module| program.as_os_str() == &*module.name) {
            mapping(&mut self.assembler, module);
        }
    }

    fn add(&mut self, part: &Aggregate) {
        self.assembler.forget_stacks();
        let mut rows = Vec::with_capacity(part.counts.len());
        for &(key, count) in &part.counts {
            let stack = self.stack(part, &key);
            let labels = self.labels(part, &key);
            let [observations, periods] =
                [count.observations, count.periods].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            let values = [observations, periods.saturating_mul(self.period)];
            let row = self.assembler.builder.merge_sample(stack, labels, &values);
            let squares = count.squares * (self.period as f64).powi(2);
            self.assembler.builder.observe(row, CPU, Observed { count: observations as f64, squares });
            rows.push(row);
        }
        let threads: Vec<ThreadId> = part.threads.iter().map(|key| self.thread(key)).collect();
        self.assembler.timeline.events(part.moments.iter().map(|moment| Event {
            time: moment.time.saturating_sub(self.start),
            sample: rows[moment.row as usize] as u32,
            thread: threads[moment.thread as usize],
            value: i64::from(moment.count).saturating_mul(self.period),
        }));
    }

    fn stack(&mut self, part: &Aggregate, key: &RowKey) -> StackId {
        let modules = self.modules;
        self.assembler.stack((key.stack, key.era, key.is_rooted), |assembler, frames| {
            let addresses = part.stacks.get(key.stack).iter();
            frames.extend(addresses.map(|&address| location(assembler, modules, address, key.era)));
            if !key.is_rooted {
                frames.push(assembler.builder.named_frame("[truncated]"));
            }
        })
    }

    fn labels(&mut self, part: &Aggregate, key: &RowKey) -> LabelSetId {
        let builder = &mut self.assembler.builder;
        let name = ThreadKey { tid: 0, name: part.names[key.name as usize] }.name();
        let mut labels = vec![builder.text_label("thread", &name)];
        for (name, value) in part.labels[key.labels as usize].iter() {
            // An empty text would be read back as a number.
            let value = if value.is_empty() { "\"\"" } else { value };
            labels.push(builder.text_label(name, value));
        }
        builder.labels(&labels)
    }

    fn thread(&mut self, key: &ThreadKey) -> ThreadId {
        let Assembler { builder, timeline, .. } = &mut self.assembler;
        *self.threads.entry(*key).or_insert_with(|| {
            let program = std::env::current_exe().ok();
            let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
            timeline.thread(Thread {
                pid: u64::from(std::process::id()),
                tid: key.tid as u64,
                name: builder.string(&key.name()),
                process: builder.string(&program.to_string_lossy()),
            })
        })
    }

    fn finish(self, parts: &[&Aggregate], facts: &Facts) -> Profile {
        let Assembler { mut builder, timeline, .. } = self.assembler;
        builder.set_period("cpu", "nanoseconds", self.period);
        let header = builder.header_mut();
        header.time_nanos = facts.start_unix;
        header.duration_nanos = i64::try_from(facts.end.saturating_sub(facts.start)).unwrap_or(i64::MAX);
        let (quality, remarks) = facts.judge(parts);
        facts.comments.iter().chain(&remarks).for_each(|comment| builder.comment(comment));
        let quality = Quality { engine: builder.string(facts.engine), ..quality };
        // All or nothing: a hole would look like a program that did nothing.
        let has_timeline = !timeline.is_empty() && !parts.iter().any(|part| part.has_no_timeline);
        let timeline = has_timeline.then(|| timeline.finish(facts.start_unix, CPU));
        builder.finish_with(timeline, Some(quality))
    }
}

fn location(assembler: &mut Assembler<StackKey>, modules: &History, address: u64, era: Era) -> LocationId {
    let mapping = match modules.find(address, era) {
        Some(module) => Some(mapping(assembler, module)),
        None if address >= KERNEL_START => Some(assembler.kernel(false)),
        None => None,
    };
    assembler.builder.address(mapping, address)
}

fn mapping(assembler: &mut Assembler<StackKey>, module: &Module) -> MappingId {
    let Module { start, end, file_offset, name, .. } = module;
    // Borrowed modules do not move, so their addresses identify them.
    assembler.module(ptr::from_ref(module).addr() as u64, |builder| {
        builder.file_mapping(*start..*end, *file_offset, name, &module.build_id_hex())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::aggregate::Incoming;
    use crate::labels::LabelSet;
    use flamelet_profile::Label;
    use flamelet_unwind::Modules;

    fn module(start: u64, name: &str) -> Module {
        Module {
            start,
            end: start + 0x1000,
            file_offset: 0x400,
            bias: start,
            name: name.into(),
            build_id: [0xab, 0x01].into(),
            table: None,
        }
    }

    #[test]
    fn a_profile_has_addresses_mappings_labels_time_and_quality() {
        let mut modules = Modules::new();
        let mut seen = History::default();
        modules.insert(module(0x8000, "/lib/gone.so"));
        seen.learn(&modules);
        modules.remove(0x8000, 0x9000);
        modules.insert(module(0x1000, "/bin/now"));
        seen.learn(&modules);
        let labels = LabelSet::new([("route", "/a")]);
        let thread = ThreadKey { tid: 42, name: *b"main\0\0\0\0\0\0\0\0\0\0\0\0" };
        let mut part = Aggregate::default();
        let frames = [0x1010, 0x8020];
        let sample = Incoming {
            thread,
            time: 1500,
            labels: &labels,
            frames: &frames,
            era: seen.era(),
            is_rooted: true,
            count: 3,
        };
        part.add(&sample, true, usize::MAX);
        part.add(&Incoming { is_rooted: false, count: 1, ..sample }, true, usize::MAX);
        let facts = Facts {
            start_unix: 77,
            start: 1000,
            end: 5000,
            engine: "timer",
            asked_frequency: 100,
            process_cpu_nanos: 40_000_000,
            ..Facts::default()
        };
        let profile = profile(&[&part], &facts, &seen);
        assert_eq!(profile.sample_count(), 2);
        assert_eq!(profile.sample(0).values, [1, 30_000_000]);
        assert_eq!(profile.observed(1)[0], Observed { count: 1.0, squares: 9e14 });
        let stack = profile.stack(profile.sample(0).stack);
        let location = profile.location(stack[1]);
        let mapping = profile.mapping(location.mapping.expect("mapped"));
        assert_eq!((location.address, mapping.start, mapping.offset), (0x8020, 0x8000, 0x400));
        assert_eq!(profile.string(mapping.filename), "/lib/gone.so");
        assert_eq!(profile.string(mapping.build_id), "ab01");
        let labels = profile.labels(profile.sample(0).labels);
        let text = |label: &Label| (profile.string(label.key), profile.string(label.text));
        assert_eq!(labels.iter().map(text).collect::<Vec<_>>(), [("thread", "main"), ("route", "/a")]);
        let timeline = profile.timeline.as_ref().expect("kept");
        assert_eq!((timeline.events[0].time, timeline.threads[0].tid), (500, 42));
        assert_eq!((timeline.events[0].value, timeline.value_type), (30_000_000, 1));
        let quality = profile.quality.expect("said");
        assert_eq!((quality.samples, quality.truncated, quality.lost), (2, 1, 0));
        assert_eq!(quality.achieved_millihertz, 50_000);
    }

    #[test]
    fn libraries_at_one_address_one_after_the_other_are_distinguished() {
        let (labels, mut part) = (LabelSet::EMPTY, Aggregate::default());
        let (mut seen, mut modules) = (History::default(), Modules::new());
        let names = ["/lib/a.so", "/lib/b.so", "/lib/a.so"];
        for name in names {
            modules.insert(module(0x8000, name));
            seen.learn(&modules);
            let thread = ThreadKey { tid: 1, name: [0; 16] };
            let frames = &[0x8020];
            let sample = Incoming {
                thread,
                time: 0,
                labels: &labels,
                frames,
                era: seen.era(),
                is_rooted: true,
                count: 1,
            };
            part.add(&sample, true, usize::MAX);
        }
        let profile = profile(&[&part], &Facts { asked_frequency: 100, ..Facts::default() }, &seen);
        let file = |stack| {
            let mapping = profile.location(profile.stack(stack)[0]).mapping.expect("mapped");
            profile.string(profile.mapping(mapping).filename)
        };
        let rows: Vec<_> = profile.samples().map(|sample| (file(sample.stack), sample.values[0])).collect();
        assert_eq!(rows, [("/lib/a.so", 2), ("/lib/b.so", 1)]);
        assert_eq!(profile.mappings().len(), 2);
    }

    #[test]
    fn time_without_samples_is_counted_and_explained() {
        let facts = Facts { asked_frequency: 100, process_cpu_nanos: 1_000_000_000, ..Facts::default() };
        let profile = profile(&[&Aggregate::default()], &facts, &History::default());
        assert_eq!(profile.quality.map(|quality| quality.lost), Some(99));
        let comments: Vec<&str> = profile.comments().collect();
        assert!(
            matches!(comments[..], [one] if one.starts_with("100 % of the CPU time has no sample")),
            "{comments:?}"
        );
    }
}
