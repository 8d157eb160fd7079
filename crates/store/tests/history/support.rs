//! Windows whose contents are known from their number.

use std::collections::BTreeMap;
use std::path::Path;

use flamelet_profile::{Budget, Limits, Line, Profile, ProfileBuilder, Quality};
use flamelet_store::{Query, Reader};

pub(crate) const SECOND: i64 = 1_000_000_000;
/// A moment when all is well.
pub(crate) const THEN: i64 = 1_794_700_800 * SECOND;
pub(crate) const WINDOW: i64 = 10 * SECOND;

/// Returns window `number` of a process that mapped its files at `base`.
pub(crate) fn window_at(number: u64, start: i64, base: u64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 52_631_578);
    let program = builder.file_mapping(base..base + 0x10_0000, 0x1000, "/bin/service", "ab01");
    let library = builder.file_mapping(base + 0x20_0000..base + 0x21_0000, 0, "/lib/some.so", "");
    let function = builder.named_function("[truncated]", "");
    let cut = builder.location(None, 0, &[Line { function: Some(function), line: 0, column: 0 }]);
    for sample in 0..5 {
        // Some stacks are in every window, others are new in each.
        let leaf = if sample < 3 { sample } else { number * 5 + sample };
        let frames = [
            builder.address(Some(program), base + 0x100 + leaf % 0x8_0000),
            builder.address(Some(library), base + 0x20_0000 + sample),
            builder.address(Some(program), base + 0x99),
            if sample == 4 { cut } else { builder.address(None, 0xdead_beef) },
        ];
        let stack = builder.stack(&frames);
        let thread = builder.text_label("thread", if number.is_multiple_of(2) { "even" } else { "odd" });
        let bytes = builder.number_label("bytes", 512, "bytes");
        let count_of_labels = if sample == 1 { 2 } else { 1 };
        let labels = builder.labels(&[thread, bytes][..count_of_labels]);
        let count = (number % 7 + sample + 1) as i64;
        builder.sample(stack, labels, &[count, count * 52_631_578]);
    }
    let engine = builder.string("timer");
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (start, WINDOW);
    let quality = Quality { engine, asked_millihertz: 19_000, samples: 10, lost: 1, ..Quality::default() };
    builder.finish_with(None, Some(quality))
}

/// Returns window `number` of a process that wrote one every ten seconds.
pub(crate) fn window(number: u64) -> Profile {
    window_at(number, THEN + number as i64 * WINDOW, 0x7f00_0000_0000)
}

/// What a profile says, whatever its ids and addresses are: for each stack and label set its values.
pub(crate) type Facts = BTreeMap<String, Vec<i64>>;

pub(crate) fn facts(profile: &Profile) -> Facts {
    let mut facts = Facts::new();
    for sample in profile.samples() {
        let frame = |&id: &flamelet_profile::LocationId| {
            let location = profile.location(id);
            let names = profile.lines(id).iter().filter_map(|line| line.function);
            let names: Vec<&str> = names.map(|id| profile.string(profile.function(id).name)).collect();
            match location.mapping.map(|id| profile.mapping(id)) {
                Some(mapping) => {
                    let (file, id) = (profile.string(mapping.filename), profile.string(mapping.build_id));
                    format!("{file}[{id}]+{:x}", location.address - mapping.start + mapping.offset)
                }
                None => format!("{:x}{}", location.address, names.join(",")),
            }
        };
        let stack: Vec<String> = profile.stack(sample.stack).iter().map(frame).collect();
        let labels = profile.labels(sample.labels).iter().map(|label| {
            let (key, text) = (profile.string(label.key), profile.string(label.text));
            format!("{key}={text}{}{}", label.number, profile.string(label.unit))
        });
        let key = format!("{} {}", stack.join(" < "), labels.collect::<Vec<_>>().join(","));
        let values = facts.entry(key).or_insert_with(|| vec![0; sample.values.len()]);
        values.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
    }
    facts
}

/// Returns the facts of several windows together.
pub(crate) fn sum(windows: impl IntoIterator<Item = Profile>) -> Facts {
    let mut all = Facts::new();
    for window in windows {
        for (key, values) in facts(&window) {
            let sums = all.entry(key).or_insert_with(|| vec![0; values.len()]);
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    all
}

/// Returns what a folder has between two moments.
pub(crate) fn read(folder: &Path, from: i64, to: i64) -> Option<Profile> {
    let budget = Budget::new(Limits::PERSON);
    let reader = Reader::open(folder).expect("a folder");
    reader.profile(&Query::new("cpu", from, to), &budget).expect("within the budget").0
}

pub(crate) fn read_window(folder: &Path, number: u64) -> Option<Facts> {
    let start = THEN + number as i64 * WINDOW;
    read(folder, start, start + WINDOW).map(|profile| facts(&profile))
}

/// Small random numbers, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
