//! What a collector keeps: nothing that it acknowledged is lost, and nothing is counted twice.

mod ask;
mod code;
mod crashes;
mod formats;
mod hostile;
mod memory;
#[cfg(unix)]
mod private;
mod races;
mod refusals;
mod rollups;
mod scrapes;
mod serving;
mod shared;
mod sql;
mod support;
mod tenants;
mod watch;

use flamelet_collect::{Collector, Keep, Offered, Query, Reader};
use flamelet_profile::{Budget, Limits, ProfileBuilder};

use support::{HOUR, Site, T0, cpu, heap, totals};

#[test]
fn what_was_accepted_is_read_from_the_log_and_from_blocks() {
    let site = Site::new();
    let collector = site.open();
    for minute in 0..3 {
        let profile = cpu(T0 + minute * 60_000_000_000, &[("main;work", 5), ("main;idle", 1)]);
        collector.accept(&support::offered("checkout", &[("version", "1")], &profile)).expect("accepted");
    }
    collector.accept(&support::offered("cart", &[], &cpu(T0, &[("main", 7)]))).expect("accepted");
    let check = |when: &str| {
        assert_eq!(site.services(), ["cart", "checkout"], "{when}");
        assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((18, 180)), "{when}");
        // A profile belongs to a range if it begins in it.
        assert_eq!(site.total("checkout", T0 + 1, T0 + 60_000_000_001), Some((6, 60)), "{when}");
        assert_eq!(site.total("checkout", T0 + HOUR, T0 + 2 * HOUR), None, "{when}");
        assert_eq!(site.total("cart", T0, T0 + HOUR), Some((7, 70)), "{when}");
    };
    check("in the log");
    assert!(site.files().iter().all(|name| !name.ends_with(".parquet")), "{:?}", site.files());
    collector.maintain();
    check("in blocks");
    assert!(site.files().iter().all(|name| !name.ends_with(".log")), "{:?}", site.files());
    assert_eq!(site.files().iter().filter(|name| name.ends_with("manifest.json")).count(), 2);
    drop(collector);
    let _again = site.open();
    check("after a restart");
}

#[test]
fn stacks_names_and_labels_come_back() {
    let site = Site::new();
    let collector = site.open();
    collector
        .accept(&support::offered("checkout", &[("version", "ü\"'<b>")], &cpu(T0, &[("main;work", 5)])))
        .expect("accepted");
    collector.maintain();
    let profile = site.profile("checkout", "process_cpu", T0, T0 + HOUR).expect("a profile");
    let sample = profile.sample(0);
    let names: Vec<&str> = profile
        .stack(sample.stack)
        .iter()
        .flat_map(|&id| profile.lines(id))
        .filter_map(|line| Some(profile.string(profile.function(line.function?).name)))
        .collect();
    assert_eq!(names, ["work", "main"]);
    let [label] = profile.labels(sample.labels) else { panic!("one label") };
    assert_eq!((profile.string(label.key), profile.string(label.text)), ("version", "ü\"'<b>"));
    let mapping = profile.mapping(profile.locations()[0].mapping.expect("a mapping"));
    assert_eq!(
        (profile.string(mapping.filename), profile.string(mapping.build_id)),
        ("/bin/checkout", "ab01")
    );
    assert_eq!(profile.header.period, 10_000_000);
}

#[test]
fn what_is_sent_again_counts_once() {
    let site = Site::new();
    let profile = support::offered("checkout", &[], &cpu(T0, &[("main", 3)]));
    let collector = site.open();
    for _ in 0..3 {
        collector.accept(&profile).expect("accepted");
    }
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((3, 30)));
    collector.maintain();
    collector.accept(&profile).expect("accepted");
    drop(collector);
    let collector = site.open();
    collector.accept(&profile).expect("accepted after a restart");
    collector
        .accept(&support::offered("checkout", &[("zone", "b")], &cpu(T0, &[("main", 3)])))
        .expect("another pod");
    collector.maintain();
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((6, 60)));
}

#[test]
fn memory_in_use_is_of_the_last_moment_and_totals_become_differences() {
    let site = Site::new();
    let collector = site.open();
    for (at, allocated, in_use) in [(0, 100, 10), (1, 130, 30), (2, 135, 20)] {
        let offered = support::offered("checkout", &[], &heap(T0 + at * 60_000_000_000, allocated, in_use));
        collector.accept(&flamelet_collect::Offered { is_delta: false, ..offered }).expect("accepted");
    }
    for when in ["in the log", "in blocks"] {
        let profile = site.profile("checkout", "memory", T0, T0 + HOUR).expect(when);
        let kinds: Vec<&str> =
            profile.sample_types().iter().map(|value| profile.string(value.kind)).collect();
        assert_eq!(kinds, ["alloc_space", "inuse_space"]);
        assert_eq!((profile.total(0), profile.total(1)), (35, 20), "{when}");
        collector.maintain();
    }
}

/// A heap profile with so many bytes in use by each route.
fn heap_by_route(time: i64, routes: &[(&str, i64)]) -> Offered {
    let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
    builder.header_mut().time_nanos = time;
    let frame = builder.named_frame("allocate");
    let stack = builder.stack(&[frame]);
    for (route, bytes) in routes {
        let route = builder.text_label("route", route);
        let labels = builder.labels(&[route]);
        builder.sample(stack, labels, &[i64::from(*bytes > 7), *bytes]);
    }
    support::offered("checkout", &[("pod", "a")], &builder.finish())
}

#[test]
fn memory_that_was_freed_is_not_in_use_whatever_its_labels() {
    const MINUTE: i64 = 60_000_000_000;
    let site = Site::new();
    let mut collector = site.open();
    let send = |collector: &Collector, at: i64, routes: &[(&str, i64)]| {
        collector.accept(&heap_by_route(T0 + at * MINUTE, routes)).expect("accepted");
    };
    send(&collector, 0, &[("/cart", 100), ("/pay", 50)]);
    send(&collector, 1, &[("/pay", 60), ("/home", 9)]);
    // Another value of the same labels is 0.
    send(&collector, 2, &[("/pay", 70), ("/home", 5)]);
    for when in ["in the log", "in blocks"] {
        let in_use = |from: i64, to: i64| {
            let profile = site.profile("checkout", "memory", T0 + from * MINUTE, T0 + to * MINUTE);
            profile.map(|profile| totals(&profile))
        };
        assert_eq!(in_use(0, 1), Some((2, 150)), "{when}");
        assert_eq!(in_use(0, 2), Some((2, 69)), "{when}");
        assert_eq!(in_use(0, 60), Some((1, 75)), "{when}");
        assert_eq!(in_use(1, 3), Some((1, 75)), "{when}");
        // The next one makes blocks from the log on the disk.
        drop(collector);
        collector = site.open();
    }
}

#[test]
fn hours_that_are_over_have_one_block() {
    let site = Site::new();
    let collector = site.open();
    for at in 0..3 {
        collector
            .accept(&support::offered("checkout", &[], &cpu(T0 + at, &[("main;x", 1 + at)])))
            .expect("accepted");
        collector.maintain();
    }
    collector.maintain();
    let manifests = site.files().iter().filter(|name| name.ends_with("manifest.json")).count();
    assert_eq!(manifests, 1, "{:?}", site.files());
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((6, 60)));
}

#[test]
fn what_is_too_old_or_too_much_is_removed() {
    let site = Site::new();
    let hours = [T0, T0 + HOUR, T0 + 2 * HOUR];
    {
        let collector = site.open();
        for (at, time) in hours.iter().enumerate() {
            let profile = cpu(*time, &[("main", 1 + at as i64)]);
            collector.accept(&support::offered("checkout", &[], &profile)).expect("accepted");
        }
        collector.maintain();
    }
    let bytes = site.block_bytes();
    let mut options = site.options();
    options.max_bytes = bytes - 1;
    drop(site.open_with(options));
    assert_eq!(site.total("checkout", T0, T0 + 3 * HOUR), Some((5, 50)), "the oldest hour is gone");
    let mut options = site.options();
    options.keep = std::time::Duration::from_secs(4 * 3600);
    options.doubt = std::time::Duration::ZERO;
    drop(site.open_with(options));
    assert!(site.files().iter().all(|name| !name.ends_with("parquet")), "{:?}", site.files());
}

#[test]
fn a_wrong_clock_does_not_remove_everything() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_nanos()).expect("not far in the future");
    let site = Site::new();
    {
        let collector = site.open();
        for time in [T0, T0 + HOUR] {
            collector
                .accept(&support::offered("checkout", &[], &cpu(time, &[("main", 1)])))
                .expect("accepted");
        }
        collector.maintain();
    }
    let mut options = site.options();
    options.keep = std::time::Duration::from_secs(4 * 3600);
    let notes = support::Noting::default();
    let collector = Collector::open(options, Box::new(notes.clone())).expect("opened");
    // For all that is known, it is ten years later; a profile of now changes nothing.
    collector.accept(&support::offered("checkout", &[], &cpu(now, &[("main", 1)]))).expect("accepted");
    for _ in 0..2 {
        collector.maintain();
    }
    assert_eq!(site.total("checkout", T0, T0 + 2 * HOUR), Some((2, 20)));
    let told = notes.all();
    assert!(told.len() == 1 && told[0].contains("no profiles are removed by age"), "{told:?}");
    // With profiles of another hour, the time is believed.
    collector.accept(&support::offered("checkout", &[], &cpu(now - HOUR, &[("main", 1)]))).expect("accepted");
    collector.maintain();
    assert_eq!(site.total("checkout", T0, T0 + 2 * HOUR), None);
    assert_eq!(site.total("checkout", now - 2 * HOUR, now + HOUR), Some((2, 20)));
}

#[test]
fn services_are_kept_for_different_times() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_nanos()).expect("not far in the future");
    let site = Site::new();
    let collector = site.open();
    for service in ["checkout", "test-1"] {
        for hours in [0, 1, 5] {
            let profile = cpu(now - hours * HOUR, &[("main", 1)]);
            collector.accept(&support::offered(service, &[], &profile)).expect("accepted");
        }
    }
    collector.maintain();
    drop(collector);
    let mut options = site.options();
    let keep = std::time::Duration::from_secs(3 * 3600);
    options.keep_of = vec![Keep::parse("{service_name=~\"test-.*\"}", keep).expect("read")];
    let collector = site.open_with(options);
    let count = |service: &str| site.total(service, now - 24 * HOUR, now + HOUR).map(|totals| totals.0);
    assert_eq!((count("checkout"), count("test-1")), (Some(3), Some(2)));
    let old = cpu(now - 6 * HOUR, &[("main", 1)]);
    let refused = collector.accept(&support::offered("test-1", &[], &old)).expect_err("too old");
    assert!(refused.message.contains("are kept for 0.125 days"), "{refused:?}");
    collector.accept(&support::offered("checkout", &[], &old)).expect("accepted");
}

#[test]
fn blocks_are_due_when_the_log_is_large() {
    let site = Site::new();
    let mut options = site.options();
    options.max_log = 2000;
    let collector = site.open_with(options);
    let mut sent = 0;
    while !collector.is_due() {
        assert!(sent < 100, "a log of {sent} profiles is large enough");
        let profile = cpu(T0 + sent * 1000, &[("main", 1)]);
        collector.accept(&support::offered("checkout", &[], &profile)).expect("accepted");
        sent += 1;
    }
    assert!(sent > 1, "one is not enough");
    collector.maintain();
    assert!(!collector.is_due());
}

/// The stacks of one program may fill the memory that a tenant has, with each profile anew.
#[test]
fn blocks_are_made_early_for_memory_only_so_often() {
    let names: Vec<String> = (0..170).map(|number| format!("main;work_{number}")).collect();
    let names: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 1)).collect();
    for (flush, is_due) in [(0, true), (3600, false)] {
        let site = Site::new();
        let mut options = site.options();
        (options.share, options.flush) = (1000, std::time::Duration::from_secs(flush));
        let collector = site.open_with(options);
        collector.accept(&support::offered("checkout", &[], &cpu(T0, &names))).expect("accepted");
        assert_eq!(collector.is_due(), is_due, "blocks every {flush} seconds");
    }
}

#[test]
fn there_is_one_writer_and_any_number_of_readers() {
    let site = Site::new();
    let collector = site.open();
    collector.accept(&support::offered("checkout", &[], &cpu(T0, &[("main", 3)]))).expect("accepted");
    let error = Collector::open(site.options(), Box::new(support::Nowhere)).map(drop).expect_err("locked");
    assert!(error.to_string().contains("another collector writes here"), "{error}");
    let reader = Collector::open_read_only(site.options(), Box::new(support::Nowhere)).expect("opened");
    let refused =
        reader.accept(&support::offered("checkout", &[], &cpu(T0, &[("main", 3)]))).expect_err("refused");
    assert_eq!(refused.status, 405);
    let query = Query::new("checkout", "process_cpu", T0, T0 + HOUR);
    let (profile, notes) = reader.reader().profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
    assert_eq!((totals(&profile.expect("a profile")), notes.len()), ((3, 30), 0));
    assert!(Reader::open(std::path::Path::new("/nowhere")).is_err());
}

#[test]
fn many_senders_at_once_are_all_on_disk() {
    let site = Site::new();
    let collector = site.open();
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let collector = &collector;
            scope.spawn(move || {
                for at in 0..20 {
                    let profile = cpu(T0 + (thread * 100 + at) * 1000, &[("main", 1)]);
                    collector.accept(&support::offered("checkout", &[], &profile)).expect("accepted");
                    if at == 10 {
                        collector.maintain();
                    }
                }
            });
        }
    });
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((160, 1600)));
    collector.maintain();
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((160, 1600)));
}

#[test]
fn what_comes_after_the_end_is_refused_and_everything_before_is_in_blocks() {
    let site = Site::new();
    let collector = site.open();
    collector.accept(&support::offered("checkout", &[], &cpu(T0, &[("main", 3)]))).expect("accepted");
    collector.close();
    let late = support::offered("checkout", &[], &cpu(T0 + 1000, &[("main", 5)]));
    let refused = collector.accept(&late).expect_err("refused");
    assert!(refused.status == 503 && refused.message.contains("stopping"), "{refused:?}");
    assert!(site.files().iter().all(|name| !name.ends_with(".log")), "{:?}", site.files());
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((3, 30)));
    drop(collector);
    site.open().accept(&late).expect("accepted by the next one");
}
