//! The memory reports, with profiles whose answers are known.

use flamelet_profile::HeapView;
use flamelet_profile::{Profile, ProfileBuilder};
use flamelet_report::heap;
use flamelet_report::{Report, ReportKind, ReportOptions};

/// A stack (leaf first), text labels, objects and bytes.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], i64, i64);

fn profile(kinds: [&str; 2], seconds: i64, rows: &[Row<'_>]) -> Profile {
    let mut builder = ProfileBuilder::new(&[(kinds[0], "count"), (kinds[1], "bytes")]);
    let period_type = builder.value_type("space", "bytes");
    let header = builder.header_mut();
    (header.period_type, header.period) = (Some(period_type), 4096);
    header.time_nanos = seconds * 1_000_000_000;
    for (stack, labels, objects, bytes) in rows {
        let frames: Vec<_> = stack
            .iter()
            .map(|name| {
                let function = builder.named_function(name, "");
                builder.frame(function, 0)
            })
            .collect();
        let stack = builder.stack(&frames);
        let labels: Vec<_> = labels
            .iter()
            .map(|(key, text)| match text.parse() {
                Ok(number) => builder.number_label(key, number, ""),
                Err(_) => builder.text_label(key, text),
            })
            .collect();
        let labels = builder.labels(&labels);
        builder.sample(stack, labels, &[*objects, *bytes]);
    }
    builder.finish()
}

const IN_USE: [&str; 2] = ["inuse_objects", "inuse_space"];
const FREED: [&str; 2] = ["freed_objects", "freed_space"];

fn report(profile: Profile) -> Report {
    Report::new(profile, &ReportOptions::default(), ReportKind::Traces).expect("a report")
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn holders_are_named_by_the_allocating_function() {
    let grow = "alloc::raw_vec::RawVecInner<A>::finish_grow";
    let heap = profile(
        IN_USE,
        1,
        &[
            (&[grow, "shop::cart::add", "shop::main"], &[("thread", "a")], 10, 1_000_000),
            (&[grow, "shop::cart::add", "shop::main"], &[("thread", "b")], 10, 2_000_000),
            (&["malloc", "parse"], &[], 4, 1_000_000),
            (&["shop::gone"], &[], 0, 0),
        ],
    );
    assert_eq!(HeapView::of(&heap), Some(HeapView::InUse));
    let holders = heap::holders(&report(heap), HeapView::InUse).expect("in use");
    let rows: Vec<_> = holders.rows.iter().map(|row| (&*row.own[0], row.bytes, row.objects)).collect();
    assert_eq!(rows, [("shop::cart::add", 3_000_000, 20), ("parse", 1_000_000, 4)]);
    assert_eq!((holders.total_bytes, holders.total_objects, holders.period), (4_000_000, 24, 4096));
    let text = text(|out| holders.write_text("In use", 1, out));
    assert!(text.contains("In use: 3.81MB in 24 objects, estimated from one sample per 4kB"), "{text}");
    assert!(text.contains("shop::cart::add\n") && text.contains("← shop::main\n"), "{text}");
    assert!(text.ends_with("and 1 more stacks (-n 0 shows all)\n"), "{text}");
}

/// What `record --heap` writes: bytes at the peak, and no count of objects for it.
#[test]
fn uncounted_objects_are_not_zero_objects() {
    let recorded =
        profile(["temporary_objects", "peak_space"], 1, &[(&["shop::cart::add"], &[], 7, 2_000_000)]);
    assert_eq!(HeapView::of(&recorded), Some(HeapView::Peak));
    let report = report(recorded);
    let holders = heap::holders(&report, HeapView::Peak).expect("at the peak");
    let text = text(|out| holders.write_text("At the peak", 5, out));
    assert!(text.starts_with("At the peak: 1.91MB, estimated"), "{text}");
    assert!(text.contains("–          –  shop::cart::add"), "{text}");
    let nothing = self::report(profile(FREED, 1, &[]));
    assert_eq!(heap::temporary(&nothing).expect("nothing was freed yet").rows.len(), 0);
    let error = heap::temporary(&report).expect_err("only counted").to_string();
    assert!(error.contains("flamelet top -i temporary_objects"), "{error}");
}

/// A leak, a cache that filled once, a saw, and what does not change: over eight moments only one is a leak.
#[test]
fn a_leak_is_distinguished_from_memory_that_only_moves() {
    let moment = |at: i64| {
        let saw = if at % 2 == 0 { 3_000_000 } else { 5_000_000 };
        let filled = if at < 1 { 100_000 } else { 90_000_000 };
        profile(
            IN_USE,
            at * 60,
            &[
                (&["shop::leak"], &[], 100 + at, 10_000_000 + at * 1_000_000),
                (&["shop::saw"], &[], 100, saw),
                (&["shop::cache"], &[], 100, filled),
                (&["shop::config"], &[], 1, 70_000_000),
            ],
        )
    };
    let reports: Vec<Report> = (0..8).map(|at| report(moment(at))).collect();
    let growth = heap::growth_between(&reports).expect("growth");
    let rows: Vec<_> =
        growth.rows.iter().map(|row| (&*row.own[0], row.bytes, row.suspect, row.steady)).collect();
    let expected = [
        ("shop::leak", 7_000_000, true, Some(true)),
        ("shop::cache", 89_900_000, false, Some(false)),
        ("shop::saw", 2_000_000, false, Some(false)),
    ];
    assert_eq!(rows, expected);
    assert_eq!((growth.moments, growth.seconds), (8, 420.0));
    assert_eq!((growth.rows[0].trend, growth.rows[0].objects), (Some(100), 7));
    assert_eq!(growth.rows[0].series.first(), Some(&10_000_000));
    let text = text(|out| growth.write_text(10, out));
    assert!(text.starts_with("Growth in 420 s: 94.32MB in 3 stacks, 1 of them possible leaks"), "{text}");

    // Two profiles do not show what is steady: everything that grew by more than noise is a suspect.
    let two = heap::growth_between(&[report(moment(0)), report(moment(7))]).expect("growth");
    assert_eq!(two.rows.iter().map(|row| row.suspect).collect::<Vec<_>>(), [true, true, true]);
    assert_eq!(two.rows[0].own[0], "shop::cache");
    assert!(two.rows.iter().all(|row| row.steady.is_none()));
}

#[test]
fn small_growth_in_a_sampled_profile_is_noise() {
    let moment = |bytes: i64| report(profile(IN_USE, 0, &[(&["shop::noise"], &[], bytes / 16, bytes)]));
    // Sixteen bytes per object and one sample per 4 KiB: the deviation of 16 MiB is a quarter of a MiB.
    let growth = heap::growth_between(&[moment(16 << 20), moment((16 << 20) + (512 << 10))]).expect("growth");
    assert!(!growth.rows[0].suspect && (1.3..1.5).contains(&growth.rows[0].sigmas), "{:?}", growth.rows[0]);
}

#[test]
fn a_service_says_itself_what_is_steady() {
    let labels: [(&str, &str); 2] = [("trend", "86"), ("steady", "yes")];
    let growth = profile(
        ["growth_objects", "growth_space"],
        1,
        &[
            (&["shop::once"], &[("trend", "20"), ("steady", "no")], 5, 50_000_000),
            (&["shop::leak"], &labels, 5, 5_000_000),
        ],
    );
    assert_eq!(HeapView::of(&growth), Some(HeapView::Growth));
    let growth = heap::growth(&report(growth)).expect("growth");
    let rows: Vec<_> = growth.rows.iter().map(|row| (&*row.own[0], row.trend, row.suspect)).collect();
    assert_eq!(rows, [("shop::leak", Some(86), true), ("shop::once", Some(20), false)]);
}

#[test]
fn freed_pairs_the_freeing_with_the_allocating_function() {
    let freed = profile(
        FREED,
        1,
        &[
            (
                &[
                    "core::ptr::drop_in_place",
                    "shop::consume",
                    "[freed by]",
                    "alloc::vec::Vec::push",
                    "shop::produce",
                ],
                &[],
                3,
                300,
            ),
            (&["shop::consume", "shop::worker", "[freed by]", "shop::produce"], &[], 1, 100),
            (&["shop::own", "[freed by]", "shop::own"], &[], 1, 50),
            (&["shop::elsewhere"], &[], 1, 7),
        ],
    );
    assert_eq!(HeapView::of(&freed), Some(HeapView::Freed));
    let freed = heap::freed(&report(freed)).expect("freed");
    let rows: Vec<_> = freed
        .rows
        .iter()
        .map(|row| (&*row.allocated_by, &*row.freed_by, row.bytes, row.objects, row.stacks))
        .collect();
    let expected = [
        ("shop::produce", "shop::consume", 400, 4, 2),
        ("shop::own", "shop::own", 50, 1, 1),
        ("shop::elsewhere", "[unknown]", 7, 1, 1),
    ];
    assert_eq!(rows, expected);
    let text = text(|out| freed.write_text(10, out));
    assert!(text.contains("freed by shop::consume\n") && text.contains("freed by the same\n"), "{text}");
}

#[test]
fn lifetimes_and_temporary_allocations() {
    let lived = |text: &'static str| [("lifetime", text)];
    let freed = profile(
        FREED,
        1,
        &[
            (&["shop::format"], &lived("temporary"), 900, 9000),
            (&["shop::format"], &lived("<1ms"), 100, 1000),
            (&["shop::session"], &lived("1m-10m"), 5, 5000),
        ],
    );
    assert_eq!(HeapView::of(&freed), Some(HeapView::Lifetime));
    let report = report(freed);
    let lifetimes = heap::lifetimes(&report).expect("lifetimes");
    let classes: Vec<_> = lifetimes
        .classes
        .iter()
        .filter(|class| class.bytes > 0)
        .map(|class| (class.lifetime, class.bytes, class.objects))
        .collect();
    assert_eq!(classes, [("temporary", 9000, 900), ("<1ms", 1000, 100), ("1m-10m", 5000, 5)]);
    let rows: Vec<_> = lifetimes.rows.iter().map(|row| (&*row.own[0], row.bytes, row.mostly)).collect();
    assert_eq!(rows, [("shop::format", 10_000, "temporary"), ("shop::session", 5000, "1m-10m")]);
    assert_eq!(lifetimes.rows[0].by_class[..2], [9000, 1000]);
    let text = text(|out| lifetimes.write_text(10, out));
    assert!(text.contains("temporary") && text.contains("90.00%") && text.contains('█'), "{text}");
    let temporary = heap::temporary(&report).expect("temporary");
    assert_eq!(temporary.rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), [9000]);
}

#[test]
fn another_profile_is_refused_with_a_way_out() {
    let cpu = profile(["samples", "cpu"], 1, &[(&["main"], &[], 1, 1)]);
    assert_eq!(HeapView::of(&cpu), None);
    let report = report(cpu);
    let error = heap::holders(&report, HeapView::Peak).expect_err("not of memory").to_string();
    assert!(
        error.contains("no peak_space (it has samples, cpu)") && error.contains("/debug/pprof/peak"),
        "{error}"
    );
    assert!(
        heap::lifetimes(&report).is_err() && heap::freed(&report).is_err() && heap::growth(&report).is_err()
    );
    assert!(heap::growth_between(&[report]).is_err());
    assert!(heap::growth_between(&[]).expect("nothing").rows.is_empty());
}
