//! The shared part of the heap tests: names for addresses, totals by function, and how far an estimate may be off.

#![allow(dead_code, reason = "each test uses a part")]

use flamelet_profile::{LocationId, Profile};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// There is one heap in the process: tests that inspect the whole heap take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of this test program, by address in the file.
pub(crate) struct Names {
    functions: BTreeMap<u64, (u64, String)>,
    /// File offset and address of each segment.
    segments: Vec<(u64, u64, u64)>,
}

impl Names {
    /// Those of the running program.
    pub(crate) fn load() -> Self {
        let path = std::env::current_exe().expect("a program");
        let bytes = std::fs::read(path).expect("the program can be read");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let functions = file
            .symbols()
            .filter(|symbol| symbol.size() > 0)
            .filter_map(|symbol| Some((symbol.address(), (symbol.size(), symbol.name().ok()?.to_owned()))))
            .collect();
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        Self { functions, segments: segments.collect() }
    }

    /// The mangled names of a stack's functions in this program, leaf first.
    pub(crate) fn of_stack(&self, profile: &Profile, stack: &[LocationId]) -> Vec<String> {
        let program = std::env::current_exe().expect("a program");
        let name = |&id: &LocationId| {
            let location = profile.location(id);
            let mapping = profile.mapping(location.mapping?);
            if profile.string(mapping.filename) != program.to_str()? {
                return None;
            }
            let offset = location.address - mapping.start + mapping.offset;
            let (start, _, address) =
                self.segments.iter().find(|(start, length, _)| (*start..start + length).contains(&offset))?;
            let address = offset - start + address;
            let (first, (size, name)) = self.functions.range(..=address).next_back()?;
            (address < first + size).then(|| name.clone())
        };
        stack.iter().filter_map(name).collect()
    }

    /// The sums of all values of samples whose stack has functions with all these names in them, in this
    /// order from the leaf, and whose labels `accepts` takes.
    pub(crate) fn total(&self, profile: &Profile, functions: &[&str]) -> Vec<i64> {
        self.total_where(profile, functions, |_| true)
    }

    pub(crate) fn total_where(
        &self,
        profile: &Profile,
        functions: &[&str],
        accepts: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Vec<i64> {
        let mut sums = vec![0; profile.sample_types().len()];
        for sample in profile.samples() {
            let names = self.of_stack(profile, profile.stack(sample.stack));
            let mut names = names.iter();
            let fits = functions.iter().all(|wanted| names.any(|name| name.contains(wanted)));
            if fits && accepts(&labels(profile, sample.labels)) {
                sums.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }
}

/// The labels of a sample as text.
pub(crate) fn labels(profile: &Profile, set: flamelet_profile::LabelSetId) -> BTreeMap<String, String> {
    let text = |label: &flamelet_profile::Label| match label.is_text() {
        true => profile.string(label.text).to_owned(),
        false => label.number.to_string(),
    };
    profile.labels(set).iter().map(|label| (profile.string(label.key).to_owned(), text(label))).collect()
}

/// After jemalloc got a new rate: the distance to this thread's next sample was still drawn with the old rate of half a
/// megabyte, and nothing is sampled until then. One large block is longer than any such distance.
pub(crate) fn take_the_first_sample() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64 << 20)));
}

/// How many objects of which size were allocated.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) count: u64,
    pub(crate) size: u64,
}

/// Checks estimated objects and bytes against what was allocated. It fails outside of six standard deviations, which
/// would happen by chance once in 500 million times.
#[track_caller]
pub(crate) fn assert_close(what: &str, objects: i64, bytes: i64, batches: &[Batch], mean: u64) {
    let (mut expected, mut variance) = ((0.0, 0.0), (0.0, 0.0));
    for batch in batches {
        let (count, size) = (batch.count as f64, batch.size as f64);
        let chance = -(-size / mean as f64).exp_m1();
        let spread = count * (1.0 - chance) / chance;
        expected = (expected.0 + count, expected.1 + count * size);
        variance = (variance.0 + spread, variance.1 + spread * size * size);
    }
    // Whole numbers: each sample is rounded.
    let off = |got: i64, expected: f64, variance: f64| {
        let allowed = 6.0 * f64::sqrt(variance) + 2.0 + expected * 1e-6;
        ((got as f64 - expected).abs() > allowed).then_some(allowed)
    };
    let checks = [("objects", objects, expected.0, variance.0), ("bytes", bytes, expected.1, variance.1)];
    for (unit, got, expected, variance) in checks {
        if let Some(allowed) = off(got, expected, variance) {
            panic!("{what}: {got} {unit}, expected {expected} ± {allowed:.0}");
        }
    }
}
