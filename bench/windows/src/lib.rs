//! Windows of a made-up service's CPU samples. Seeded: the same windows on every machine.

use flamelet_profile::{NamedLine, Observed, Profile, ProfileBuilder};

/// In nanoseconds.
pub const SECOND: i64 = 1_000_000_000;
/// Stacks that the service ever has, and their depth.
const STACKS: u64 = 6000;
const DEPTH: u64 = 40;
/// Samples in a window: one busy core at 19 Hz.
pub const SAMPLES: usize = 190;

/// Small random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Small numbers are more likely: half of them are below a sixteenth of the limit.
    fn skewed(&mut self, limit: u64) -> u64 {
        let fraction = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (fraction.powi(4) * limit as f64) as u64
    }
}

/// A window of the service, without names: some stacks are in nearly every one, most in few. `begin` and `length` are in
/// nanoseconds.
pub fn window(number: u64, begin: i64, length: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 52_631_578);
    let program = builder.file_mapping(0x5555_0000_0000..0x5555_0200_0000, 0, "/bin/service", "0f3a9c");
    let mut random = Random(number + 1);
    let threads = ["worker-1", "worker-2", "worker-3", "worker-4"];
    let labels: Vec<_> = threads
        .map(|thread| {
            let label = builder.text_label("thread", thread);
            builder.labels(&[label])
        })
        .into();
    for _ in 0..SAMPLES {
        let stack = random.skewed(STACKS);
        let frames: Vec<_> =
            (0..DEPTH).rev().map(|depth| builder.address(Some(program), frame(stack, depth))).collect();
        let stack = builder.stack(&frames);
        let row = builder.merge_sample(stack, labels[random.below(4) as usize], &[1, 52_631_578]);
        builder.observe(row, 1, Observed::equal(1.0, 52_631_578.0));
    }
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (begin, length);
    builder.finish()
}

/// The address of a frame: the first frames are those of the runtime, and stacks part more and more.
fn frame(stack: u64, depth: u64) -> u64 {
    let group = match depth {
        0..12 => 0,
        12..24 => stack % 20,
        24..34 => stack % 400,
        _ => stack,
    };
    let mut random = Random(group * 64 + depth);
    0x5555_0000_0000 + random.below(0x1ff_0000)
}

/// The functions at an address, as debug information names them: a function of 256 bytes, and one that is inlined there.
pub fn names(address: u64) -> Vec<NamedLine> {
    let mut random = Random(address / 256);
    let (crate_number, module) = (random.below(60), random.below(20));
    let line = |name: String, line: u64| NamedLine {
        system_name: format!("_RNvMs_NtCs{:x}_{name}", crate_number * 0x9e37_79b9),
        filename: format!(
            "/home/build/.cargo/registry/src/crate_{crate_number}-1.2.{module}/src/module_{module}.rs"
        ),
        start_line: (address / 256 % 900) as i64,
        line: line as i64,
        column: 9,
        name,
    };
    let name =
        format!("crate_{crate_number}::module_{module}::Type{}::method_{:x}", module % 7, address / 256);
    let own = line(name, address % 1000);
    let inlined = (address % 3 == 0)
        .then(|| line(format!("core::iter::adapters::map::fold_{}", address / 256 % 500), address % 300));
    inlined.into_iter().chain([own]).collect()
}
