//! What people ask a fleet.

use flamelet_collect::{Asked, Changes, Reader, Usage, UsageBy, UsageOptions, changes, usage};
use flamelet_profile::{Error, Granularity, LabelSetId, Limits, ProfileBuilder};
use flamelet_report::by::Grouping;
use flamelet_report::{Owners, Report, ReportKind, ReportOptions};

use crate::support::{Site, T0, cpu, offered};

const MINUTE: i64 = 60_000_000_000;

/// Twelve profiles, a minute apart; `slow` of the 10,000 samples of each are in one function.
fn send(site: &Site, service: &str, labels: &[(&str, &str)], from: i64, slow: i64) {
    let collector = site.open();
    for minute in 0..12 {
        // No two windows are quite alike, and traffic doubles.
        let more = 1 + minute % 2;
        let rest = (0..9).map(|at| (format!("main;f{at}"), (1000 + (minute * 7 + at * 3) % 11) * more));
        let rest: Vec<(String, i64)> = rest.collect();
        let mut stacks: Vec<(&str, i64)> = rest.iter().map(|(name, count)| (&**name, *count)).collect();
        stacks.push(("main;run;slow", (slow + minute % 3) * more));
        let profile = cpu(from + minute * MINUTE, &stacks);
        collector.accept(&offered(service, labels, &profile)).expect("accepted");
    }
    collector.close();
}

fn asked(service: Option<&str>) -> Asked<'_> {
    Asked { service, select: None, from: T0, to: T0 + 100 * MINUTE, limits: Limits::SERVICE }
}

fn ask(site: &Site, service: Option<&str>) -> Changes {
    let reader = Reader::open(site.path()).expect("opened");
    changes(&reader, &asked(service), |_| {}).expect("answered")
}

fn functions(changes: &Changes, service: usize) -> Vec<&str> {
    let deploys = changes.services[service].deploys.iter();
    deploys.flat_map(|deploy| &deploy.slower).map(|row| &*row.function).collect()
}

#[test]
fn a_service_whose_version_nobody_says_is_listed_with_the_reason() {
    let site = Site::new();
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    builder.header_mut().time_nanos = T0;
    let frame = builder.named_frame("main");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[7]);
    let collector = site.open();
    let profile = builder.finish();
    collector.accept(&offered("checkout", &[], &profile)).expect("accepted");
    let reason = "they have none of the labels service_git_ref, version, service_version, and no build id";
    let found = ask(&site, None);
    let [checkout] = &found.services[..] else { panic!("one service: {found:?}") };
    assert!(checkout.versions.is_empty() && !found.regressed, "{found:?}");
    assert_eq!(checkout.notes, [format!("its profiles do not say their version: {reason}")]);
    collector.accept(&offered("checkout", &[("version", "1")], &profile)).expect("accepted");
    let found = ask(&site, None);
    assert_eq!(found.services[0].versions.len(), 1);
    let left_out = format!("profiles that do not say their version were left out: {reason}");
    assert_eq!(found.services[0].notes, [left_out]);
}

#[test]
fn what_got_slower_is_named_with_its_version_and_its_line() {
    let site = Site::new();
    send(&site, "checkout", &[("version", "1")], T0, 1000);
    send(&site, "checkout", &[("version", "2")], T0 + 20 * MINUTE, 1000);
    send(&site, "checkout", &[("version", "3")], T0 + 40 * MINUTE, 1100);
    send(&site, "cart", &[("service_git_ref", "abc"), ("version", "1")], T0, 1000);
    send(&site, "cart", &[("service_git_ref", "def"), ("version", "1")], T0 + 20 * MINUTE, 1000);
    send(&site, "alone", &[], T0, 1000);
    let found = ask(&site, None);
    assert!(found.regressed);
    let services: Vec<&str> = found.services.iter().map(|service| &*service.service).collect();
    assert_eq!(services, ["alone", "cart", "checkout"]);
    let version = &found.services[0].versions[0];
    assert_eq!((version.by, &*version.version), ("build id", "ab01"));
    assert_eq!(found.services[1].versions[1].by, "service_git_ref");
    assert!(functions(&found, 1).is_empty() && found.services[1].deploys.len() == 1, "{found:?}");
    let checkout = &found.services[2];
    assert!(checkout.deploys[0].slower.is_empty(), "{checkout:?}");
    let deploy = &checkout.deploys[1];
    assert_eq!((&*deploy.before, &*deploy.after, deploy.since), ("2", "3", T0 + 40 * MINUTE));
    let row = &deploy.slower[0];
    assert_eq!((&*row.function, &*row.file, row.line), ("slow", "src/main.rs", 7));
    assert!((row.growth - 0.1).abs() < 0.01 && row.confidence > 0.999, "{row:?}");
    // The same of one service.
    assert_eq!(functions(&ask(&site, Some("checkout")), 0), functions(&found, 2));
    assert!(!ask(&site, Some("cart")).regressed && ask(&site, Some("nobody")).services.is_empty());
}

#[test]
fn what_cannot_be_compared_is_said() {
    let site = Site::new();
    send(&site, "checkout", &[("version", "1")], T0, 1000);
    let collector = site.open();
    let profile = cpu(T0 + 20 * MINUTE, &[("main;other", 7)]);
    collector.accept(&offered("checkout", &[("version", "2")], &profile)).expect("accepted");
    drop(collector);
    let found = ask(&site, None);
    assert!(!found.regressed && found.services[0].deploys.is_empty());
    let [note] = &found.services[0].notes[..] else { panic!("{found:?}") };
    assert!(note.contains("1 and 2 were not compared") && note.contains("1 of 12 windows"), "{note}");
}

fn used(site: &Site, options: &UsageOptions) -> Usage {
    let reader = Reader::open(site.path()).expect("opened");
    let wanted = ReportOptions {
        granularity: Some(Granularity::Lines),
        node_count: Some(0),
        ..ReportOptions::default()
    };
    usage(&reader, &asked(None), options, |profile| {
        let report = Report::new(profile, &wanted, ReportKind::Top)?;
        let owners = Owners::of(report.profile(), |_, _| false);
        Ok::<_, Error>((report, owners))
    })
    .expect("answered")
}

#[test]
fn services_are_sorted_by_the_cores_that_they_use() {
    let site = Site::new();
    let collector = site.open();
    // Two profiles of 10 s, 90 s apart: the range is 100 s long. A sample is 10 ns.
    for (service, count) in [("small", 1_000_000_000), ("large", 3_000_000_000)] {
        for time in [T0, T0 + 90_000_000_000] {
            let profile =
                cpu(time, &[("main;run;copy", count), ("main;idle", count / 2), ("main", count / 2)]);
            collector.accept(&offered(service, &[], &profile)).expect("accepted");
        }
    }
    drop(collector);
    let found = used(&site, &UsageOptions { by: Some(UsageBy::Group(Grouping::Crate)), price: Some(0.5) });
    let rows: Vec<(&str, f64, f64)> =
        found.services.iter().map(|row| (&*row.service, row.cpu_seconds, row.cores)).collect();
    assert_eq!(rows, [("large", 120.0, 1.2), ("small", 40.0, 0.4)]);
    assert_eq!((found.from, found.to, found.cores), (T0, T0 + 100_000_000_000, 1.6));
    let large = &found.services[0];
    assert_eq!((large.function.as_deref(), large.function_share, large.share), (Some("copy"), 0.5, 0.75));
    assert_eq!(large.cost_per_month, Some(1.2 * 0.5 * 730.0));
    assert_eq!(found.by, Some("crate"));
    let sum: f64 = found.groups.iter().map(|group| group.cpu_seconds).sum();
    assert_eq!(sum, 160.0, "{:?}", found.groups);
    assert!(found.groups.iter().all(|group| group.services == 2), "{:?}", found.groups);
}

#[test]
fn one_odd_profile_does_not_spoil_the_sums_of_the_others() {
    let site = Site::new();
    let collector = site.open();
    collector.accept(&offered("honest", &[], &cpu(T0, &[("main;run", 1_000_000_000)]))).expect("accepted");
    let mut events = ProfileBuilder::new(&[("events", "count")]);
    events.header_mut().time_nanos = T0;
    let stack = events.named_frame("main");
    let stack = events.stack(&[stack]);
    events.sample(stack, LabelSetId::EMPTY, &[1]);
    collector.accept(&offered("events", &[], &events.finish())).expect("accepted");
    let mut endless = cpu(T0, &[("main;run", 1)]);
    endless.header.duration_nanos = i64::MAX;
    // Its length is not believed.
    collector.accept(&offered("endless", &[], &endless)).expect("accepted");
    drop(collector);
    let found = used(&site, &UsageOptions::default());
    let honest = found.services.iter().find(|row| row.service == "honest").expect("it is there");
    assert_eq!(honest.cpu_seconds, 10.0);
    assert!(found.to <= T0 + 100 * MINUTE, "{}", found.to);
    assert!(found.notes.iter().any(|note| note.contains("events: left out")), "{:?}", found.notes);
}
