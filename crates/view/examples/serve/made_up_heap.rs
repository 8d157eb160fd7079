//! Heap profiles of the made-up service, in the shapes that flamelet's own heap profiler writes.

use flamelet_report::profile::{HeapSizes, Profile, ProfileBuilder};

use crate::made_up::{Maker, Numbers};

/// Who allocates: the stack from the root, the usual size of an object, and the part that is kept, in percent.
const SITES: &[(&[&str], u64, u64)] = &[
    (&["checkout::main", "checkout::store::Cart::load", "alloc::vec::Vec<T,A>::reserve"], 4096, 70),
    (
        &[
            "checkout::main",
            "checkout::store::Cart::load",
            "serde_json::de::from_slice",
            "alloc::string::String::clone",
        ],
        48,
        3,
    ),
    (
        &["checkout::main", "checkout::search::Index::build", "hashbrown::raw::RawTable<T>::reserve_rehash"],
        1 << 20,
        100,
    ),
    (&["checkout::main", "checkout::search::Index::lookup", "alloc::vec::Vec<T,A>::with_capacity"], 512, 0),
    (&["checkout::main", "checkout::pay::sign", "alloc::fmt::format"], 96, 0),
    (&["checkout::main", "checkout::session::Sessions::insert", "alloc::boxed::Box<T>::new"], 300, 55),
    (
        &["checkout::main", "axum::json::Json<T>::into_response", "bytes::bytes_mut::BytesMut::reserve"],
        8192,
        1,
    ),
];

const LIFETIMES: [&str; 6] = ["temporary", "<1ms", "1ms-10ms", "10ms-100ms", "1s-10s", "1m-10m"];

/// What is in use and what was allocated, with the sizes of objects.
pub(crate) fn heap() -> Profile {
    let types = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let mut maker = Maker { builder: ProfileBuilder::new(&types), numbers: Numbers(5) };
    for (names, usual, kept) in SITES {
        let locations = maker.stack(names);
        let stack = maker.builder.stack(&locations);
        for power in 0..4u64 {
            let size = usual << power >> 1;
            let count = 400 / (power + 1) + maker.numbers.below(90);
            let label = maker.builder.number_label("bytes", size as i64, "bytes");
            let labels = maker.builder.labels(&[label]);
            let live = count * kept / 100;
            let values = [count, count * size, live, live * size].map(|value| value as i64);
            maker.builder.sample(stack, labels, &values);
        }
    }
    let mut profile = maker.builder.finish();
    let mut sizes = HeapSizes::default();
    for second in 0..60u64 {
        // A peak in the middle.
        sizes.push(second * 1_000_000_000, if second == 30 { 64 << 20 } else { (second + 1) << 18 });
    }
    profile.set_heap_sizes(sizes);
    profile
}

/// How long freed memory had lived.
pub(crate) fn lifetime() -> Profile {
    let types = [("freed_objects", "count"), ("freed_space", "bytes")];
    let mut maker = Maker { builder: ProfileBuilder::new(&types), numbers: Numbers(6) };
    for (at, (names, usual, kept)) in SITES.iter().enumerate() {
        let locations = maker.stack(names);
        let stack = maker.builder.stack(&locations);
        for (class, name) in LIFETIMES.iter().enumerate() {
            let count = (100 - kept) * 6 / (1 + (class + at) as u64 % 5) + maker.numbers.below(9);
            let size = maker.builder.number_label("bytes", *usual as i64, "bytes");
            let lifetime = maker.builder.text_label("lifetime", name);
            let labels = maker.builder.labels(&[size, lifetime]);
            maker.builder.sample(stack, labels, &[count as i64, (count * usual) as i64]);
        }
    }
    maker.builder.finish()
}

/// What grew.
pub(crate) fn growth() -> Profile {
    let types = [("growth_objects", "count"), ("growth_space", "bytes")];
    let mut maker = Maker { builder: ProfileBuilder::new(&types), numbers: Numbers(7) };
    for (names, usual, kept) in SITES.iter().filter(|(_, _, kept)| *kept > 50) {
        let locations = maker.stack(names);
        let stack = maker.builder.stack(&locations);
        let size = maker.builder.number_label("bytes", *usual as i64, "bytes");
        let labels = maker.builder.labels(&[size]);
        maker.builder.sample(stack, labels, &[*kept as i64, (kept * usual) as i64]);
    }
    maker.builder.finish()
}
