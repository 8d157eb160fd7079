//! Hand-made profiles with corner cases that programs rarely produce.

use crate::wire::{Label, ProfileFile};

/// A service with several sample types, inlined frames, recursion, the same function name in two files,
/// Rust and C++ names, frames without symbols, labels of every kind, comments, and frames to drop.
pub fn corners() -> Vec<u8> {
    let mut file = ProfileFile::new(&[("objects", "count"), ("space", "bytes"), ("wait", "nanoseconds")]);
    file.period("space", "bytes", 524_288);
    file.time(1_700_000_000_000_000_000, 12_500_000_000);
    file.default_sample_type("space");
    file.comment("engine: by hand");
    file.comment("second line of comment");
    file.doc_url("https://example.org/doc");
    file.frames("internal::drop_me.*", "internal::drop_me_not");
    let program = file.mapping(0x40_0000, 0x60_0000, 0, "/usr/bin/service", "aabbccdd");
    let library = file.mapping(0x7f00_0000_0000, 0x7f00_0010_0000, 0x2000, "/usr/lib/libthing.so.1", "1234");

    let main = file.function("service::main", "_ZN7service4main17h0123456789abcdefE", "src/main.rs", 10);
    let handle = file.function(
        "<service::Handler<T> as tower::Service<Request>>::call",
        "_RNvXs_7service",
        "src/handler.rs",
        40,
    );
    let inlined =
        file.function("core::iter::Iterator::map", "core::iter::Iterator::map", "core/iter.rs", 100);
    let inner = file.function("service::inner", "service::inner", "src/handler.rs", 80);
    let parse_a = file.function("parse", "parse", "src/a.rs", 1);
    let parse_b = file.function("parse", "parse", "src/b.rs", 1);
    let cpp = file.function("std::vector<int>::push_back(int const&)", "_ZNSt6vector", "vector.h", 900);
    let dropped = file.function("internal::drop_me_quickly", "internal::drop_me_quickly", "src/drop.rs", 5);
    let nameless_file = file.function("__libc_start_main", "__libc_start_main", "", 0);

    let l_start = file.location(library, 0x7f00_0000_1000, &[(nameless_file, 0, 0)]);
    let l_main = file.location(program, 0x40_1000, &[(main, 12, 5)]);
    let l_main_again = file.location(program, 0x40_1020, &[(main, 17, 9)]);
    let l_handle = file.location(program, 0x40_2000, &[(inner, 85, 3), (inlined, 104, 0), (handle, 44, 20)]);
    let l_handle_self = file.location(program, 0x40_2040, &[(handle, 45, 0)]);
    let l_parse_a = file.location(program, 0x40_3000, &[(parse_a, 3, 0)]);
    let l_parse_b = file.location(program, 0x40_4000, &[(parse_b, 4, 0)]);
    let l_push = file.location(library, 0x7f00_0000_2000, &[(cpp, 911, 0)]);
    let l_drop = file.location(program, 0x40_5000, &[(dropped, 6, 0)]);
    let l_raw = file.location(library, 0x7f00_0000_3abc, &[]);
    let l_nowhere = file.location(0, 0xdead_beef, &[]);

    let get = Label::Text("method", "GET");
    let post = Label::Text("method", "POST");
    let kilobytes = |n: i64| Label::Number("bytes", n * 1024, "bytes");
    let stack = |leaf: &[u64]| [leaf, &[l_main, l_start]].concat();
    file.sample(&stack(&[l_parse_a, l_handle]), &[10, 10 * 65_536, 1_000_000], &[get, kilobytes(64)]);
    file.sample(&stack(&[l_parse_b, l_handle]), &[4, 4 * 262_144, 2_500_000], &[post, kilobytes(256)]);
    file.sample(&stack(&[l_push, l_handle_self]), &[2, 2 * 1_048_576, 0], &[post, kilobytes(1024)]);
    // Two values for one key, and a number in a unit of time.
    let both = [get, post, Label::Number("latency", 1500, "microseconds")];
    file.sample(&stack(&[l_handle]), &[7, 7 * 32, 42], &both);
    // Recursion through the same function at two addresses.
    file.sample(&[l_handle_self, l_handle, l_handle_self, l_main_again, l_start], &[3, 3 * 4096, 77], &[]);
    // Everything below the frame to drop is dropped too.
    file.sample(&stack(&[l_push, l_drop, l_handle_self]), &[1, 50_000, 9_000], &[kilobytes(48)]);
    file.sample(&stack(&[l_raw]), &[5, 5 * 100_000, 12_345], &[Label::Number("requests", 17, "")]);
    file.sample(&[l_nowhere, l_main_again, l_start], &[1, 1000, 1], &[]);
    // The same stack twice with the same labels must be one row.
    file.sample(&stack(&[l_parse_a, l_handle]), &[1, 65_536, 5], &[get, kilobytes(64)]);
    // Zero in the default type.
    file.sample(&stack(&[l_parse_b]), &[0, 0, 3_000_000], &[get]);
    file.into_gzip()
}

/// The same service later: some stacks grew, one shrank, one is gone, and values below zero are in the file.
pub fn negative() -> Vec<u8> {
    let mut file = ProfileFile::new(&[("cpu", "nanoseconds")]);
    file.period("cpu", "nanoseconds", 10_000_000);
    file.time(1_700_000_100_000_000_000, 1_000_000_000);
    let program = file.mapping(0x40_0000, 0x60_0000, 0, "/usr/bin/service", "aabbccdd");
    let names = ["main", "grew", "shrank", "same", "gone"];
    let locations: Vec<u64> = names
        .iter()
        .zip(1u64..)
        .map(|(name, n)| {
            let function = file.function(name, name, "service.c", 10 * n as i64);
            file.location(program, 0x40_0000 + n * 0x100, &[(function, 10 * n as i64 + 1, 0)])
        })
        .collect();
    for (leaf, value) in [(1, 300_000_000), (2, -120_000_000), (3, 0), (4, -80_000_000), (1, 20_000_000)] {
        file.sample(&[locations[leaf], locations[0]], &[value], &[Label::Text("leaf", names[leaf])]);
    }
    file.sample(&[locations[2], locations[1], locations[0]], &[60_000_000], &[]);
    file.sample(&[locations[0]], &[10_000_000], &[]);
    file.into_gzip()
}

/// A wide and deep CPU profile: more nodes than any default shows, so that trimming applies.
pub fn wide() -> Vec<u8> {
    let mut file = ProfileFile::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    file.period("cpu", "nanoseconds", 10_000_000);
    file.time(1_700_000_200_000_000_000, 30_000_000_000);
    let program = file.mapping(0x40_0000, 0x80_0000, 0x1000, "/opt/wide/bin/wide", "feedface");
    let mut random = crate::mutate::Random::new(7);
    let locations: Vec<u64> = (0..400)
        .map(|n| {
            let name = format!("layer{}::module{}::function_{n}", n % 12, n % 37);
            let source = format!("/build/src/layer{}/module{}.rs", n % 12, n % 37);
            let function = file.function(&name, &format!("_mangled_{n}"), &source, n);
            let inlined = (n % 5 == 0)
                .then(|| file.function(&format!("inlined_{n}"), &format!("inlined_{n}"), &source, n + 500));
            let outer = (function, n + 3, 0);
            let lines: Vec<_> = inlined.map(|f| (f, n + 501, 0)).into_iter().chain([outer]).collect();
            file.location(program, 0x40_0000 + n as u64 * 64, &lines)
        })
        .collect();
    for _ in 0..1500 {
        let mut at = random.below(12);
        let mut stack = Vec::new();
        for layer in 0..3 + random.below(14) {
            stack.push(locations[(at * 31 + layer * 17) % locations.len()]);
            at = (at + random.below(3)) % 400;
        }
        stack.reverse();
        let count = 1 + random.below(20) as i64;
        let shard = format!("shard-{}", random.below(6));
        let labels = [Label::Text("shard", &shard), Label::Number("size", 1 << random.below(20), "bytes")];
        file.sample(&stack, &[count, count * 10_000_000], &labels[..random.below(3)]);
    }
    file.into_gzip()
}
