//! A collector that ends at the worst moment. Each state is the one that a crash leaves: files are copied at that
//! moment, or put back as if they had not been removed yet.

use crate::support::{HOUR, Site, T0, cpu, offered};

fn fill(site: &Site, from: i64, count: i64) {
    let collector = site.open();
    for at in from..from + count {
        for service in ["checkout", "cart"] {
            collector
                .accept(&offered(service, &[], &cpu(T0 + at * 1000, &[("main;work", 1 + at)])))
                .expect("accepted");
        }
    }
    // Not closed: a collector that is killed makes no blocks.
    drop(collector);
}

fn check(site: &Site, count: i64) {
    let sum: i64 = (1..=count).sum();
    for service in ["checkout", "cart"] {
        assert_eq!(
            site.total(service, T0, T0 + HOUR),
            Some((sum, sum * 10)),
            "{service}: {:?}",
            site.files()
        );
    }
}

/// Returns a site as a killed collector leaves it, and the same after its log has become blocks.
fn before_and_after() -> (Site, Site) {
    let site = Site::new();
    fill(&site, 0, 4);
    let before = site.copy();
    check(&before, 4);
    let after = before.copy();
    drop(after.open());
    check(&after, 4);
    (before, after)
}

#[test]
fn killed_before_the_log_was_removed() {
    let (before, after) = before_and_after();
    after.add_from(&before, "log/");
    check(&after, 4);
    drop(after.open());
    check(&after, 4);
    assert!(after.files().iter().all(|name| !name.starts_with("log/")), "{:?}", after.files());
}

#[test]
fn killed_between_two_blocks() {
    let (before, after) = before_and_after();
    let half = before.copy();
    half.add_from(&after, "blocks/cart/");
    check(&half, 4);
    drop(half.open());
    check(&half, 4);
}

#[test]
fn killed_while_a_block_was_written() {
    let (before, after) = before_and_after();
    let manifest =
        after.files().into_iter().find(|name| name.ends_with("manifest.json")).expect("a manifest");
    let folder = manifest.trim_end_matches("manifest.json");
    for (number, name) in ["samples.parquet", "series.parquet", "manifest.json"].iter().enumerate() {
        let half = before.copy();
        // Under its temporary name, and (as if the rename were not atomic) in its place without a manifest.
        let bytes = std::fs::read(after.path().join(folder).join(name)).expect("read");
        let temporary = half.path().join("tmp").join(format!("cart-1-{number}"));
        std::fs::create_dir_all(&temporary).expect("made");
        std::fs::write(temporary.join(name), &bytes[..bytes.len() / 2]).expect("written");
        if *name != "manifest.json" {
            half.add_from(&after, &format!("{folder}{name}"));
        }
        check(&half, 4);
        drop(half.open());
        check(&half, 4);
        assert!(half.files().iter().all(|name| !name.starts_with("tmp/")), "{:?}", half.files());
    }
}

#[test]
fn killed_while_hours_were_merged() {
    let site = Site::new();
    fill(&site, 0, 2);
    let parts = site.copy();
    // Two logs become two blocks, which are merged at once since the hour is long over.
    drop(parts.open());
    fill(&parts, 2, 2);
    let before = parts.copy();
    let merged = before.copy();
    drop(merged.open());
    check(&merged, 4);
    assert_eq!(merged.files().iter().filter(|name| name.ends_with("manifest.json")).count(), 2);
    // The merged blocks are there, and the old ones are not removed yet.
    merged.add_from(&before, "blocks/");
    check(&merged, 4);
    merged.add_from(&before, "log/");
    check(&merged, 4);
    drop(merged.open());
    check(&merged, 4);
}

#[test]
fn a_torn_log_keeps_what_was_whole() {
    let site = Site::new();
    fill(&site, 0, 3);
    let log = site.files().into_iter().find(|name| name.starts_with("log/")).expect("a log");
    let bytes = std::fs::read(site.path().join(&log)).expect("read");
    let mut seen = std::collections::BTreeSet::new();
    for length in 0..=bytes.len() {
        let torn = site.copy();
        std::fs::write(torn.path().join(&log), &bytes[..length]).expect("written");
        let total = torn.total("checkout", T0, T0 + HOUR).map_or(0, |totals| totals.0);
        seen.insert(total);
        if length % 97 == 0 {
            drop(torn.open());
            assert_eq!(torn.total("checkout", T0, T0 + HOUR).map_or(0, |totals| totals.0), total);
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 3, 6], "only whole records count");
}
