//! Turns what a capture holds (addresses, stacks, labels, values and times) into a [`Profile`].
//!
//! Every capture keeps its samples in tables of its own and numbers its modules and stacks. An [`Assembler`] remembers
//! what became of those numbers, so that each module and each stack is described once, however many samples name it.
//! What differs between captures, such as which module held an address at what time, is passed in.

use std::hash::Hash;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::{Event, LocationId, MappingId, Profile, ProfileBuilder, StackId, Thread, ThreadId, Timeline};

/// Assembles the profile of a capture that identifies its stacks by an `S`.
///
/// See [`ProfileBuilder`] for profiles that do not come from a capture.
pub struct Assembler<S> {
    /// Interns strings, labels, locations and samples.
    pub builder: ProfileBuilder,
    /// The threads, and when samples were taken.
    pub timeline: TimelineBuilder,
    modules: HashMap<u64, MappingId, FxBuildHasher>,
    kernel: Option<MappingId>,
    stacks: HashMap<S, StackId, FxBuildHasher>,
    /// Reused from stack to stack.
    frames: Vec<LocationId>,
}

impl<S: Eq + Hash> Assembler<S> {
    /// Starts a profile whose samples carry these values, each given as (kind, unit).
    pub fn new(sample_types: &[(&str, &str)]) -> Self {
        Self {
            builder: ProfileBuilder::new(sample_types),
            timeline: TimelineBuilder::default(),
            modules: HashMap::default(),
            kernel: None,
            stacks: HashMap::default(),
            frames: Vec::new(),
        }
    }

    /// Returns the mapping of the module that the capture numbers `number`; `describe` adds it on first use.
    pub fn module(
        &mut self,
        number: u64,
        describe: impl FnOnce(&mut ProfileBuilder) -> MappingId,
    ) -> MappingId {
        let builder = &mut self.builder;
        *self.modules.entry(number).or_insert_with(|| describe(builder))
    }

    /// Returns the mapping of the kernel.
    pub fn kernel(&mut self, has_names: bool) -> MappingId {
        let builder = &mut self.builder;
        *self.kernel.get_or_insert_with(|| builder.kernel_mapping(has_names))
    }

    /// Returns the stack that the capture calls `key`; `list` pushes its locations, leaf first, on first use.
    pub fn stack(&mut self, key: S, list: impl FnOnce(&mut Self, &mut Vec<LocationId>)) -> StackId {
        if let Some(&known) = self.stacks.get(&key) {
            return known;
        }
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        list(self, &mut frames);
        let stack = self.builder.stack(&frames);
        self.frames = frames;
        self.stacks.insert(key, stack);
        stack
    }

    /// Forgets the stack keys: from now on the same keys mean other stacks.
    pub fn forget_stacks(&mut self) {
        self.stacks.clear();
    }

    /// Finishes the profile of a capture without times and quality. A capture that has them takes `builder` and
    /// `timeline` out and finishes both.
    pub fn finish(self) -> Profile {
        self.builder.finish()
    }
}

/// Collects threads and events into a [`Timeline`].
#[derive(Debug, Default)]
pub struct TimelineBuilder {
    threads: Vec<Thread>,
    events: Vec<Event>,
}

impl TimelineBuilder {
    /// Adds a thread.
    pub fn thread(&mut self, thread: Thread) -> ThreadId {
        self.threads.push(thread);
        ThreadId::from_index(self.threads.len() - 1)
    }

    /// Adds events, in any order.
    pub fn events(&mut self, events: impl IntoIterator<Item = Event>) {
        self.events.extend(events);
    }

    /// Makes every event count 1.
    pub fn count_events(&mut self) {
        self.events.iter_mut().for_each(|event| event.value = 1);
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Finishes the timeline. Times count from `start_nanos` (since 1970), and the values of events are of the sample
    /// type `value_type`.
    pub fn finish(self, start_nanos: i64, value_type: usize) -> Timeline {
        let Self { threads, mut events } = self;
        events.sort_by_key(|event| event.time);
        Timeline { start_nanos, threads, events, value_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KERNEL_START, LabelSetId};

    #[test]
    fn modules_and_stacks_are_described_once() {
        let mut assembler = Assembler::new(&[("samples", "count")]);
        let (mut modules, mut stacks) = (0, 0);
        for (key, label) in [("a", "x"), ("b", "x"), ("a", "y")] {
            let stack = assembler.stack(key, |assembler, frames| {
                stacks += 1;
                let program = assembler.module(7, |builder| {
                    modules += 1;
                    builder.file_mapping(0x1000..0x2000, 0x400, "/bin/program", "ab01")
                });
                let kernel = assembler.kernel(true);
                let leaf = KERNEL_START + u64::from(key.as_bytes()[0]);
                frames.push(assembler.builder.named_address(Some(kernel), leaf, "schedule", "", 0));
                frames.push(assembler.builder.address(Some(program), 0x1010));
            });
            let label = assembler.builder.text_label("route", label);
            let labels = assembler.builder.labels(&[label]);
            assembler.builder.merge_sample(stack, labels, &[1]);
        }
        assert_eq!((modules, stacks), (1, 2));
        let profile = assembler.finish();
        assert_eq!((profile.sample_count(), profile.stack_count(), profile.locations().len()), (3, 2, 3));
        let names: Vec<&str> =
            profile.mappings().iter().map(|mapping| profile.string(mapping.filename)).collect();
        assert_eq!(names, ["/bin/program", "[kernel.kallsyms]"]);
        let [program, kernel] = profile.mappings() else { panic!("two mappings") };
        assert_eq!((program.start, program.limit, program.offset), (0x1000, 0x2000, 0x400));
        assert_eq!((kernel.start, kernel.limit, kernel.symbols.functions), (KERNEL_START, u64::MAX, true));
        assert_eq!(profile.unnamed_locations(), 1);
        assert!(profile.timeline.is_none());
    }

    #[test]
    fn events_are_sorted_by_time() {
        let mut assembler = Assembler::<u32>::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let stack = assembler.stack(0, |_, _| {});
        let sample = assembler.builder.merge_sample(stack, LabelSetId::EMPTY, &[2, 20]) as u32;
        let thread = assembler.timeline.thread(Thread { pid: 1, tid: 2, ..Thread::default() });
        let event = |time| Event { time, sample, thread, value: 10 };
        assembler.timeline.events([event(30), event(10)]);
        let timeline = assembler.timeline.finish(77, 1);
        assert_eq!(timeline.events, [event(10), event(30)]);
        assert_eq!((timeline.start_nanos, timeline.value_type, timeline.threads.len()), (77, 1, 1));
    }
}
