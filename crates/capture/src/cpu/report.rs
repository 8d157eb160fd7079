//! From collected samples to a [`Profile`].

use super::aggregate::{Aggregate, RowKey, ThreadKey};
use flamelet_profile::{
    Event, Label, LabelSetId, Mapping, MappingId, Profile, ProfileBuilder, Quality, StackId, Thread,
    ThreadId, Timeline,
};
use flamelet_unwind::{Era, History, Module};
use rustc_hash::FxHashMap;
use std::ptr;

/// Addresses from here on are the kernel's.
const KERNEL_START: u64 = 1 << 63;

/// What is said about a capture besides its samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Start in nanoseconds since 1970.
    pub(crate) start_unix: i64,
    /// Start on the monotonic clock, which samples carry.
    pub(crate) start: u64,
    /// End on the monotonic clock.
    pub(crate) end: u64,
    pub(crate) engine: &'static str,
    pub(crate) asked_frequency: u32,
    /// CPU time of the process meanwhile, without the profiler's own thread.
    pub(crate) process_cpu_nanos: u64,
    /// CPU time of the profiler itself meanwhile.
    pub(crate) own_cpu_nanos: u64,
    /// Samples that were due and found no free slot.
    pub(crate) refused: u64,
    /// Samples that were not taken each at its time: one stack stands for many of them.
    pub(crate) coarse: u64,
    /// What the samples might take.
    pub(crate) memory_budget: usize,
    /// Remarks, a line each.
    pub(crate) comments: Vec<String>,
}

/// Makes one profile of `parts`, which follow each other in time.
pub(crate) fn profile(parts: &[&Aggregate], facts: &Facts, modules: &History) -> Profile {
    let period = 1_000_000_000 / i64::from(facts.asked_frequency.max(1));
    let mut report = Report {
        builder: ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]),
        modules,
        mappings: FxHashMap::default(),
        kernel: None,
        threads: Vec::new(),
        thread_index: FxHashMap::default(),
        events: Vec::new(),
        start: facts.start,
        period,
    };
    report.map_program();
    for part in parts {
        report.add(part);
    }
    report.header(facts);
    report.finish(parts, facts)
}

struct Report<'a> {
    builder: ProfileBuilder,
    modules: &'a History,
    /// By the address of the module in `modules`.
    mappings: FxHashMap<*const Module, MappingId>,
    kernel: Option<MappingId>,
    threads: Vec<Thread>,
    thread_index: FxHashMap<ThreadKey, ThreadId>,
    events: Vec<Event>,
    start: u64,
    period: i64,
}

impl Report<'_> {
    /// Readers take the first mapping for the program itself.
    fn map_program(&mut self) {
        let Ok(program) = std::env::current_exe() else { return };
        let modules = self.modules;
        if let Some(module) = modules.now().find(|module| program.as_os_str() == &*module.name) {
            self.mapping(module);
        }
    }

    fn mapping(&mut self, module: &Module) -> MappingId {
        if let Some(&id) = self.mappings.get(&ptr::from_ref(module)) {
            return id;
        }
        let mapping = Mapping {
            start: module.start,
            limit: module.end,
            offset: module.file_offset,
            filename: self.builder.string(&module.name),
            build_id: self.builder.string(&module.build_id_hex()),
            ..Mapping::default()
        };
        let id = self.builder.mapping(mapping);
        self.mappings.insert(ptr::from_ref(module), id);
        id
    }

    /// All of the kernel's half of the addresses.
    fn kernel_mapping(&mut self) -> MappingId {
        if let Some(id) = self.kernel {
            return id;
        }
        let filename = self.builder.string(flamelet_profile::KERNEL_MAPPING);
        let mapping = Mapping { start: KERNEL_START, limit: u64::MAX, filename, ..Mapping::default() };
        let id = self.builder.mapping(mapping);
        self.kernel = Some(id);
        id
    }

    fn add(&mut self, part: &Aggregate) {
        let mut stacks: FxHashMap<(u32, Era, bool), StackId> = FxHashMap::default();
        let mut rows = Vec::with_capacity(part.counts.len());
        for &(key, count) in &part.counts {
            let stack = match stacks.get(&(key.stack, key.era, key.is_rooted)) {
                Some(&stack) => stack,
                None => {
                    let stack = self.stack(part.frames(key.stack), key.era, key.is_rooted);
                    stacks.insert((key.stack, key.era, key.is_rooted), stack);
                    stack
                }
            };
            let labels = self.labels(part, &key);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            rows.push(self.builder.merge_sample(stack, labels, &[count, count.saturating_mul(self.period)]));
        }
        let threads: Vec<ThreadId> = part.threads.iter().map(|key| self.thread(key)).collect();
        self.events.extend(part.moments.iter().map(|moment| Event {
            time: moment.time.saturating_sub(self.start),
            sample: rows[moment.row as usize] as u32,
            thread: threads[moment.thread as usize],
            value: i64::from(moment.count),
        }));
    }

    fn stack(&mut self, frames: &[u64], era: Era, is_rooted: bool) -> StackId {
        let modules = self.modules;
        let mut locations: Vec<_> = frames
            .iter()
            .map(|&address| {
                let mapping = match modules.find(address, era) {
                    Some(module) => Some(self.mapping(module)),
                    None if address >= KERNEL_START => Some(self.kernel_mapping()),
                    None => None,
                };
                self.builder.address(mapping, address)
            })
            .collect();
        if !is_rooted {
            let mark = self.builder.named_function("[truncated]", "");
            locations.push(self.builder.frame(mark, 0));
        }
        self.builder.stack(&locations)
    }

    fn labels(&mut self, part: &Aggregate, key: &RowKey) -> LabelSetId {
        let name = ThreadKey { tid: 0, name: part.names[key.name as usize] }.name();
        let mut labels: Vec<Label> = vec![self.builder.text_label("thread", &name)];
        for (name, value) in part.labels[key.labels as usize].iter() {
            // An empty text would read back as a number.
            let value = if value.is_empty() { "\"\"" } else { value };
            labels.push(self.builder.text_label(name, value));
        }
        self.builder.labels(&labels)
    }

    fn thread(&mut self, key: &ThreadKey) -> ThreadId {
        if let Some(&id) = self.thread_index.get(key) {
            return id;
        }
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        self.threads.push(Thread {
            pid: u64::from(std::process::id()),
            tid: key.tid as u64,
            name: self.builder.string(&key.name()),
            process: self.builder.string(&program.to_string_lossy()),
        });
        let id = ThreadId::from_index(self.threads.len() - 1);
        self.thread_index.insert(*key, id);
        id
    }

    fn header(&mut self, facts: &Facts) {
        let period_type = self.builder.value_type("cpu", "nanoseconds");
        for comment in &facts.comments {
            self.builder.comment(comment);
        }
        let header = self.builder.header_mut();
        header.time_nanos = facts.start_unix;
        header.duration_nanos = i64::try_from(facts.end.saturating_sub(facts.start)).unwrap_or(i64::MAX);
        header.period_type = Some(period_type);
        header.period = self.period;
    }

    fn finish(mut self, parts: &[&Aggregate], facts: &Facts) -> Profile {
        let sum = |of: fn(&Aggregate) -> u64| parts.iter().map(|part| of(part)).sum::<u64>();
        let samples = sum(|part| part.samples);
        let lost = sum(|part| part.lost) + facts.refused;
        let unseen = self.unseen(samples + lost, facts.process_cpu_nanos, parts);
        self.explain(unseen, samples + lost + unseen);
        self.doubt(facts.coarse, samples + lost);
        self.tell_what_did_not_fit(parts, facts.memory_budget);
        let quality = Quality {
            engine: self.builder.string(facts.engine),
            asked_millihertz: u64::from(facts.asked_frequency) * 1000,
            achieved_millihertz: achieved_millihertz(samples, facts.process_cpu_nanos),
            samples,
            lost: lost + unseen,
            truncated: sum(|part| part.truncated),
            unresolved: 0,
            own_cpu_nanos: facts.own_cpu_nanos,
        };
        let timeline = (!self.events.is_empty()).then(|| {
            self.events.sort_by_key(|event| event.time);
            Timeline {
                start_nanos: facts.start_unix,
                threads: std::mem::take(&mut self.threads),
                events: std::mem::take(&mut self.events),
                value_type: 0,
            }
        });
        self.builder.finish_with(timeline, Some(quality))
    }

    /// Samples that the CPU time calls for and nobody took, beyond the one that every thread may owe.
    fn unseen(&self, accounted: u64, process_cpu_nanos: u64, parts: &[&Aggregate]) -> u64 {
        let due = process_cpu_nanos / self.period.unsigned_abs().max(1);
        let threads: usize = parts.iter().map(|part| part.threads.len()).max().unwrap_or(0);
        due.saturating_sub(accounted + threads as u64 + 1)
    }

    /// Says why samples are missing, where many are.
    fn explain(&mut self, unseen: u64, due: u64) {
        const WORTH_A_WORD: u64 = 5;
        const TOO_FEW_TO_TELL: u64 = 20;
        let percent = unseen * 100 / due.max(1);
        if percent >= WORTH_A_WORD && due >= TOO_FEW_TO_TELL {
            self.builder.comment(&format!(
                "{percent} % of the CPU time has no sample: threads that ended within some milliseconds, a machine so \
                 busy that the kernel's ticks met others, or threads that block {} ({})",
                signal_name(),
                blocking_threads()
            ));
        }
    }

    /// Says what the memory budget cost.
    fn tell_what_did_not_fit(&mut self, parts: &[&Aggregate], budget: usize) {
        let samples: u64 = parts.iter().map(|part| part.lost).sum();
        if samples > 0 {
            self.builder.comment(&format!(
                "{samples} samples did not fit into the memory budget of {budget} bytes: stacks that were first seen \
                 when it was full are missing"
            ));
        }
        if parts.iter().any(|part| part.has_no_timeline) {
            // Nor in part: a hole would look like a program that did nothing.
            self.events.clear();
            self.builder
                .comment(&format!("the timeline did not fit into the memory budget of {budget} bytes"));
        }
    }

    /// Says that shares are uncertain, where many are.
    fn doubt(&mut self, coarse: u64, samples: u64) {
        const WORTH_A_WORD: u64 = 10;
        const TOO_FEW_TO_TELL: u64 = 20;
        let percent = coarse * 100 / samples.max(1);
        if percent >= WORTH_A_WORD && samples >= TOO_FEW_TO_TELL {
            self.builder.comment(&format!(
                "{percent} % of the CPU time is known by few samples, each of which stands for many: the machine was so \
                 busy that the kernel's ticks met others, or threads were new; shares of functions are less certain \
                 (the engine `perf` does not wait for ticks)"
            ));
        }
    }
}

/// The names of the threads that block the signal, as far as there is room for them.
#[cfg(target_os = "linux")]
fn blocking_threads() -> String {
    const ROOM_FOR: usize = 4;
    let names = crate::threads::names_of_blocking_threads(super::handler::signal());
    match names.len() {
        0 => "none does now".to_owned(),
        count if count <= ROOM_FOR => format!("now: {}", names.join(", ")),
        count => format!("now: {} and {} more", names[..ROOM_FOR].join(", "), count - ROOM_FOR),
    }
}

#[cfg(target_os = "linux")]
fn signal_name() -> &'static str {
    super::handler::choice().name()
}

#[cfg(not(target_os = "linux"))]
fn blocking_threads() -> String {
    "none does now".to_owned()
}

#[cfg(not(target_os = "linux"))]
fn signal_name() -> &'static str {
    "signals"
}

/// Samples per second of CPU time.
fn achieved_millihertz(samples: u64, cpu_nanos: u64) -> u64 {
    let millihertz = u128::from(samples) * 1_000_000_000_000 / u128::from(cpu_nanos.max(1));
    u64::try_from(millihertz).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::aggregate::Incoming;
    use crate::labels::LabelSet;
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
        assert_eq!(profile.sample(0).values, [3, 30_000_000]);
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
        let quality = profile.quality.expect("said");
        assert_eq!((quality.samples, quality.truncated, quality.lost), (4, 1, 0));
        assert_eq!(quality.achieved_millihertz, 100_000);
    }

    #[test]
    fn libraries_at_one_place_one_after_the_other_are_told_apart() {
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
