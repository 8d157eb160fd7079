use flamelet_profile::ProfileBuilder;

use super::*;
use crate::options::{ReportKind, ReportOptions};

const LIBRARY: &str = "/rustc/5980/library";
const REGISTRY: &str = "/home/a/.cargo/registry/src/index-1";

/// Builds a report on stacks, leaf first: (name, file) of each frame, and the value.
fn report(stacks: &[(&[(&str, &str)], i64)]) -> Report {
    report_without("", stacks)
}

/// The same, of a profile with these `drop_frames`.
fn report_without(drop_frames: &str, stacks: &[(&[(&str, &str)], i64)]) -> Report {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    builder.set_drop_frames(drop_frames);
    for (thread, (stack, value)) in stacks.iter().enumerate() {
        let frames: Vec<_> = stack
            .iter()
            .map(|(name, file)| {
                let function = builder.named_function(name, file);
                builder.frame(function, 7)
            })
            .collect();
        let stack = builder.stack(&frames);
        let label = builder.text_label("thread", &format!("worker-{thread}"));
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[*value]);
    }
    let options =
        ReportOptions { granularity: Some(flamelet_profile::Granularity::Lines), ..ReportOptions::default() };
    Report::new(builder.finish(), &options, ReportKind::Top).expect("a report")
}

fn answer(stacks: &[(&[(&str, &str)], i64)], grouping: Grouping) -> Groups {
    grouped(&report(stacks), grouping)
}

fn service() -> Vec<(Vec<(String, String)>, i64)> {
    let at = |name: &str, file: &str| (name.to_owned(), file.to_owned());
    let main = at("shop::main", "/home/me/shop/src/main.rs");
    let total = at("shop::cart::total", "/home/me/shop/src/cart.rs");
    let hash = at("core::hash::sip::Hasher::write", &format!("{LIBRARY}/core/src/hash/sip.rs"));
    let json = at("serde_json::de::from_str", &format!("{REGISTRY}/serde_json-1.0.149/src/de.rs"));
    let copy = at("__memmove_avx_unaligned_erms", "");
    let park = at("tokio::runtime::park::park", &format!("{REGISTRY}/tokio-1.47.1/src/runtime/park.rs"));
    let start = at("std::rt::lang_start", &format!("{LIBRARY}/std/src/rt.rs"));
    vec![
        (vec![total.clone(), main.clone(), start.clone()], 10),
        (vec![hash, total.clone(), main.clone(), start.clone()], 30),
        (vec![copy, json, main, start.clone()], 40),
        (vec![park, start], 20),
    ]
}

fn made() -> Report {
    let stacks = service();
    let stacks: Vec<(Vec<(&str, &str)>, i64)> = stacks
        .iter()
        .map(|(stack, value)| (stack.iter().map(|(name, file)| (&**name, &**file)).collect(), *value))
        .collect();
    let stacks: Vec<(&[(&str, &str)], i64)> =
        stacks.iter().map(|(stack, value)| (&**stack, *value)).collect();
    report(&stacks)
}

fn answered(grouping: Grouping) -> Groups {
    grouped(&made(), grouping)
}

fn grouped(report: &Report, grouping: Grouping) -> Groups {
    by(report, grouping, &Owners::of(&report.profile, |_, _| false))
}

fn row<'a>(groups: &'a Groups, name: &str) -> &'a Group {
    groups.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} in {:?}", groups.rows))
}

#[test]
fn costs_of_others_are_charged_to_the_nearest_frame_of_yours() {
    let groups = answered(Grouping::Yours);
    assert_eq!((groups.total, groups.without_yours), (100, 20));
    let total = row(&groups, "shop::cart::total");
    assert_eq!((total.flat, total.cum, total.owner), (40, 40, "yours"));
    let parts: Vec<(&str, i64)> = total.parts.iter().map(|part| (&*part.name, part.value)).collect();
    assert_eq!(parts, [("hashing", 30), ("own code", 10)]);
    let main = row(&groups, "shop::main");
    assert_eq!((main.flat, main.cum), (40, 80));
    assert_eq!(
        main.parts[0],
        GroupPart { name: "JSON".into(), value: 40 },
        "what main asked for, not the memmove inside"
    );
    assert_eq!(row(&groups, "[not called by your code: tokio 1.47.1]").flat, 20);
    assert_eq!(groups.rows.iter().map(|row| row.flat).sum::<i64>(), groups.total, "nothing is lost");
}

#[test]
fn memory_is_charged_to_who_asked_for_it_even_if_the_allocator_is_yours() {
    let file = "/home/me/shop/src/main.rs";
    let stack = [
        ("<shop::Counted as core::alloc::global::GlobalAlloc>::alloc", file),
        ("alloc::alloc::alloc", "/rustc/5980/library/alloc/src/alloc.rs"),
        ("alloc::vec::from_elem", "/rustc/5980/library/alloc/src/vec/mod.rs"),
        ("shop::cart::add", file),
        ("shop::main", file),
    ];
    let stacks: [(&[(&str, &str)], i64); 1] = [(&stack, 100)];
    let of_cpu = grouped(&report(&stacks), Grouping::Yours);
    assert_eq!(row(&of_cpu, stack[0].0).flat, 100, "its CPU time is its own");
    let groups = grouped(&report_without("alloc::alloc::.*", &stacks), Grouping::Yours);
    let asked = row(&groups, "shop::cart::add");
    assert_eq!((asked.flat, &*asked.parts[0].name), (100, "vectors"));
    assert!(groups.rows.iter().all(|row| row.name != stack[0].0), "{:?}", groups.rows);
}

#[test]
fn our_own_allocator_is_never_yours() {
    let capture = "/home/me/flamelet/crates/capture/src/heap/alloc.rs";
    let allocator = [
        ("__libc_malloc", ""),
        ("flamelet_capture::heap::alloc::Alloc<A>::plain", capture),
        ("<flamelet_capture::heap::alloc::Alloc<A> as core::alloc::global::GlobalAlloc>::alloc", capture),
        ("alloc::alloc::alloc", "/rustc/5980/library/alloc/src/alloc.rs"),
    ];
    let add = [&allocator[..], &[("shop::cart::add", "/home/me/shop/src/cart.rs")]].concat();
    let tokio = format!("{REGISTRY}/tokio-1.47.1/src/runtime/park.rs");
    let park = [&allocator[1..2], &[("tokio::runtime::park::park", &*tokio)]].concat();
    let groups = answer(&[(&add, 100), (&park, 7)], Grouping::Yours);
    assert_eq!(groups.rows.len(), 2, "{:?}", groups.rows);
    let asked = row(&groups, "shop::cart::add");
    assert_eq!((asked.flat, &*asked.parts[0].name), (100, "allocating"));
    assert_eq!(row(&groups, "[not called by your code: tokio 1.47.1]").flat, 7);
}

#[test]
fn crates_have_their_versions_and_yours_its_name() {
    let groups = answered(Grouping::Crate);
    assert_eq!(row(&groups, "shop").flat, 10);
    assert_eq!(row(&groups, "shop").cum, 80);
    assert_eq!(row(&groups, "serde_json 1.0.149").cum, 40);
    assert_eq!(row(&groups, "tokio 1.47.1").flat, 20);
    assert_eq!(row(&groups, "std").cum, 100);
    assert_eq!(groups.rows.iter().map(|row| row.flat).sum::<i64>(), groups.total);
}

#[test]
fn modules_lines_and_threads() {
    assert_eq!(row(&answered(Grouping::Module), "shop::cart").cum, 40);
    assert_eq!(row(&answered(Grouping::Line), "/home/me/shop/src/cart.rs:7 shop::cart::total").flat, 40);
    assert_eq!(row(&answered(Grouping::Thread), "worker-2").flat, 40);
}

#[test]
fn modules_of_cpp_are_namespaces() {
    let names = [
        ("void app::sort(std::vector<int, std::allocator<int> >)", "app"),
        ("app::text::Reader::next(char const*, app::text::Kind)", "app::text::Reader"),
        ("bool app::text::operator==<char>(app::text::View const&)", "app::text"),
    ];
    for (name, module) in names {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let function = builder.named_function(name, "/home/me/app/main.cc");
        let frame = builder.frame(function, 1);
        let stack = builder.stack(&[frame]);
        builder.sample(stack, Default::default(), &[10]);
        let report =
            Report::new(builder.finish(), &ReportOptions::default(), ReportKind::Top).expect("a report");
        let owners = Owners::of(&report.profile, |_, _| false);
        let rows = by(&report, Grouping::Module, &owners).rows;
        assert_eq!(rows[0].name, module, "{name}");
    }
}

#[test]
fn crates_and_modules_of_other_languages() {
    let go = |name: &'static str, file: &'static str| [(name, file)];
    let (sort, serve) =
        (go("sort.pdqsort_func", "sort/zsortfunc.go"), go("net/http.(*conn).serve", "net/http/server.go"));
    let mine = go("main.(*Set[go.shape.string]).add", "/home/me/shop/main.go");
    let groups = answer(&[(&sort, 1), (&serve, 2), (&mine, 4)], Grouping::Module);
    assert_eq!(["sort", "net/http", "main"].map(|name| row(&groups, name).flat), [1, 2, 4]);
    let count = go("count(std::string const&)", "/home/me/shop/count.cpp");
    let less = go("bool shop::less(shop::Item const&)", "/home/me/shop/item.cpp");
    let groups = answer(&[(&count, 1), (&less, 2)], Grouping::Crate);
    assert_eq!(["<unknown>", "shop"].map(|name| row(&groups, name).flat), [1, 2]);
}

#[test]
fn modules_begin_with_their_crate_and_not_with_its_folder() {
    let folder = "/home/me/shop/crates/api/src";
    let (routes, cart, main) =
        (format!("{folder}/routes.rs"), format!("{folder}/cart.rs"), format!("{folder}/main.rs"));
    let groups = answer(
        &[
            (&[("shop_api::routes::Route::get", &*routes)], 1),
            (&[("shop_api::routes::list", &*routes)], 2),
            (&[("<alloc::string::String as shop_api::cart::Named>::named", &*cart)], 4),
            (&[("total<u8>", &*cart)], 8),
            (&[("__rustc::__rust_alloc", &*main)], 16),
        ],
        Grouping::Module,
    );
    let rows: Vec<(&str, i64)> = groups.rows.iter().map(|row| (&*row.name, row.flat)).collect();
    assert_eq!(rows, [("shop_api", 16), ("shop_api::cart", 12), ("shop_api::routes", 3)]);
}

#[test]
fn recursion_counts_once() {
    let fold = ("shop::fold", "/home/me/shop/src/main.rs");
    let groups = answer(&[(&[fold, fold, fold], 5)], Grouping::Yours);
    assert_eq!((groups.rows[0].flat, groups.rows[0].cum), (5, 5));
}

#[test]
fn the_text_lists_the_parts() {
    let mut text = Vec::new();
    let report = made();
    grouped(&report, Grouping::Yours).write_text(&report, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("hashing 75% · own code 25%"), "{text}");
    assert!(text.contains("20.00% of the total has none of your code"), "{text}");
}

#[test]
fn an_unknown_grouping_is_refused_with_the_names() {
    let error = "function".parse::<Grouping>().expect_err("unknown");
    assert!(error.contains("yours, crate, module, line, thread"), "{error}");
}

/// One frame of a made-up program: its name, its file, and whether it is yours.
const FUNCTIONS: [(&str, &str); 8] = [
    ("shop::main", "/home/me/shop/src/main.rs"),
    ("shop::cart::total", "/home/me/shop/src/cart.rs"),
    ("shop::cart::add", "/home/me/shop/src/cart.rs"),
    ("core::hash::sip::Hasher::write", "/rustc/5980/library/core/src/hash/sip.rs"),
    ("std::rt::lang_start", "/rustc/5980/library/std/src/rt.rs"),
    ("__memmove_avx_unaligned_erms", ""),
    ("serde_json::de::from_str", "/home/a/.cargo/registry/src/index-1/serde_json-1.0.149/src/de.rs"),
    ("tokio::runtime::park::park", "/home/a/.cargo/registry/src/index-1/tokio-1.47.1/src/runtime/park.rs"),
];

/// Stacks as rows of [`FUNCTIONS`], leaf first, some of them empty; neighbours often share their callers.
fn made_up_stacks() -> Vec<(Vec<usize>, i64)> {
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as usize
    };
    let mut stack: Vec<usize> = Vec::new();
    let stacks = (0..500).map(|_| {
        let back = random(4).min(stack.len());
        stack.drain(..back);
        for _ in 0..random(4) {
            stack.insert(0, random(FUNCTIONS.len() as u64));
        }
        stack.truncate(12);
        (stack.clone(), random(9) as i64 - 2)
    });
    stacks.collect()
}

/// The same sums without any sharing: each stack by itself.
fn one_by_one(
    stacks: &[(Vec<usize>, i64)],
    is_counted: impl Fn(usize) -> bool,
    charged: impl Fn(&[usize]) -> Option<usize>,
) -> (Vec<[i64; 2]>, i64) {
    let (mut sums, mut without) = (vec![[0, 0]; FUNCTIONS.len()], 0);
    for (stack, value) in stacks {
        match charged(stack) {
            Some(function) => sums[function][0] += value,
            None => without += value,
        }
        for (function, sums) in sums.iter_mut().enumerate() {
            if is_counted(function) && stack.contains(&function) {
                sums[1] += value;
            }
        }
    }
    (sums, without)
}

#[test]
fn walking_along_shared_frames_gives_what_each_stack_gives_by_itself() {
    let stacks = made_up_stacks();
    let named: Vec<(Vec<(&str, &str)>, i64)> = stacks
        .iter()
        .map(|(stack, value)| (stack.iter().map(|&row| FUNCTIONS[row]).collect(), *value))
        .collect();
    let named: Vec<(&[(&str, &str)], i64)> = named.iter().map(|(stack, value)| (&**stack, *value)).collect();
    let report = report(&named);
    let is_yours = |row: usize| row < 3;
    let yours = |stack: &[usize]| stack.iter().copied().find(|&row| is_yours(row));
    let (sums, without) = one_by_one(&stacks, is_yours, yours);
    let groups = grouped(&report, Grouping::Yours);
    assert_eq!(groups.without_yours, without);
    for (function, [flat, cum]) in FUNCTIONS.iter().zip(sums).take(3) {
        let row = row(&groups, function.0);
        assert_eq!((row.flat, row.cum), (flat, cum), "{}", function.0);
        assert_eq!(row.parts.iter().map(|part| part.value).sum::<i64>(), flat, "{:?}", row.parts);
    }
    // Each of the functions that are not yours is the only one of its crate, but for the two of std.
    let (sums, _) = one_by_one(&stacks, |_| true, |stack| stack.first().copied());
    let groups = grouped(&report, Grouping::Crate);
    for (name, row_of) in [("serde_json 1.0.149", 6), ("tokio 1.47.1", 7)] {
        let found = row(&groups, name);
        assert_eq!([found.flat, found.cum], sums[row_of], "{name}");
    }
}
