//! `bench-generate STACKS OUT`: a CPU profile of a made-up Rust service with that many unique stacks.
//!
//! Seeded: the same file on every machine. Writes OUT as bare protobuf, and OUT.gz as pprof writes it.

mod names;
mod random;

use std::collections::HashSet;
use std::fs::File;
use std::io::BufWriter;

use flamelet_profile::{
    Function, Label, LabelSetId, Line, LocationId, Mapping, MappingSymbols, Profile, ProfileBuilder, pprof,
};
use random::Random;

/// Functions of the service. With the two call sites of each, 22,000 locations.
const FUNCTIONS: usize = 11_000;
/// Places in one function from which others are called.
const SITES: usize = 2;
/// Functions that one function calls.
const CALLEES: usize = 6;
/// The shallowest stack, and how many deeper ones there are: 40 frames in the mean.
const DEPTH: (usize, usize) = (22, 33);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [stacks, out] = arguments.as_slice() else {
        eprintln!("usage: bench-generate STACKS OUT");
        std::process::exit(2);
    };
    let stacks: usize = stacks.parse().expect("a number of stacks");
    let profile = service(stacks);
    let create = |path: &str| BufWriter::new(File::create(path).expect("a writable path"));
    pprof::write(&profile, create(out)).expect("writing the profile");
    pprof::write_gzip(&profile, create(&format!("{out}.gz"))).expect("writing the packed profile");
}

fn service(stacks: usize) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let period_type = builder.value_type("cpu", "nanoseconds");
    let header = builder.header_mut();
    header.period_type = Some(period_type);
    header.period = 10_000_000;
    header.time_nanos = 1_700_000_000_000_000_000;
    header.duration_nanos = 3_600_000_000_000;

    let mut random = Random::new(20_260_101);
    let sites = call_sites(&mut builder, &mut random);
    let calls: Vec<[usize; CALLEES]> =
        (0..FUNCTIONS).map(|_| std::array::from_fn(|_| random.below(FUNCTIONS))).collect();
    let label_sets = label_sets(&mut builder);

    let mut seen = HashSet::with_capacity(stacks);
    let mut path = Path::default();
    while seen.len() < stacks {
        path.advance(&calls, &mut random);
        let id = builder.stack(&path.stack(&sites));
        if seen.insert(id) {
            let count = 1 + random.skewed(40) as i64;
            let labels = label_sets[random.skewed(label_sets.len())];
            builder.sample(id, labels, &[count, count * 10_000_000]);
        }
    }
    builder.finish()
}

/// A way down from `main`: (function, call site), root first.
#[derive(Default)]
struct Path(Vec<(usize, usize)>);

impl Path {
    /// Goes back a little and down another way, as a program does between two samples: most neighbours share
    /// their first frames. A function prefers its first callees.
    fn advance(&mut self, calls: &[[usize; CALLEES]], random: &mut Random) {
        let back = if random.below(40) == 0 { self.0.len() } else { 1 + random.below(14) };
        self.0.truncate(self.0.len().saturating_sub(back));
        let mut at = self.0.last().map_or(0, |(function, _)| calls[*function][random.skewed(CALLEES)]);
        for _ in self.0.len()..DEPTH.0 + random.below(DEPTH.1) {
            let site = random.skewed(SITES);
            self.0.push((at, site));
            at = calls[at][random.skewed(CALLEES)];
        }
    }

    /// As locations, leaf first.
    fn stack(&self, sites: &[[LocationId; SITES]]) -> Vec<LocationId> {
        self.0.iter().rev().map(|(function, site)| sites[*function][*site]).collect()
    }
}

/// The locations of each function; one in four has a frame inlined into it.
fn call_sites(builder: &mut ProfileBuilder, random: &mut Random) -> Vec<[LocationId; SITES]> {
    let symbols = MappingSymbols::ALL;
    let (filename, build_id) = (builder.string("/usr/bin/checkout"), builder.string("5ea7ab1e"));
    let mapping =
        builder.mapping(Mapping { start: 0x1000, limit: 0x800_0000, offset: 0, filename, build_id, symbols });
    (0..FUNCTIONS)
        .map(|n| {
            let function = function(builder, n);
            let inlined =
                function_named(builder, &names::inlined(n), "_R_inlined", "library/core/src/iter.rs");
            std::array::from_fn(|site| {
                let line = 10 + (n % 700) as i64 + site as i64 * 7;
                let own = Line { function: Some(function), line, column: 0 };
                let inner = Line { function: Some(inlined), line: 120 + (n % 90) as i64, column: 0 };
                let address = 0x1000 + ((n * SITES + site) * 48 + random.below(40)) as u64;
                let lines = [inner, own];
                builder.location(Some(mapping), address, if n % 4 == 0 { &lines } else { &lines[1..] })
            })
        })
        .collect()
}

fn function(builder: &mut ProfileBuilder, n: usize) -> flamelet_profile::FunctionId {
    function_named(builder, &names::function(n), &names::mangled(n), &names::file(n))
}

fn function_named(
    builder: &mut ProfileBuilder,
    name: &str,
    system_name: &str,
    file: &str,
) -> flamelet_profile::FunctionId {
    let (name, system_name, filename) =
        (builder.string(name), builder.string(system_name), builder.string(file));
    builder.function(Function { name, system_name, filename, start_line: 10 })
}

/// No labels for most samples, a route for the others.
fn label_sets(builder: &mut ProfileBuilder) -> Vec<LabelSetId> {
    let routes = ["/", "/cart", "/checkout", "/login", "/search", "/item", "/health"];
    let mut sets = vec![builder.labels(&[])];
    for route in routes {
        let label: Label = builder.text_label("route", route);
        sets.push(builder.labels(&[label]));
    }
    sets
}
