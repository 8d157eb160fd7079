//! Readers while blocks are merged and removed: each finds everything that was there when it began.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::support::{HOUR, Site, T0, cpu, offered};

#[test]
fn a_reader_misses_nothing_while_an_hour_is_merged_again_and_again() {
    let site = Site::new();
    let collector = site.open();
    let (accepted, reads, is_over) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&is_over);
            while !is_over.load(Ordering::SeqCst) {
                let before = accepted.load(Ordering::SeqCst);
                let found = site.total("checkout", T0, T0 + HOUR).map_or(0, |totals| totals.0);
                assert!(found >= before, "{found} of at least {before} profiles were found");
                reads.fetch_add(1, Ordering::SeqCst);
            }
        });
        let write = || {
            for at in 0..60 {
                let profile = cpu(T0 + at * 1000, &[("main;work", 1)]);
                collector.accept(&offered("checkout", &[], &profile)).expect("accepted");
                accepted.fetch_add(1, Ordering::SeqCst);
                let before = reads.load(Ordering::SeqCst);
                // The hour is over, so its blocks are merged, and the old ones are removed at once.
                collector.maintain();
                // No more than two merges happen during one read.
                while reads.load(Ordering::SeqCst) == before && !is_over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
        };
        let _over = Over(&is_over);
        write();
    });
    assert_eq!(site.total("checkout", T0, T0 + HOUR), Some((60, 600)));
}

/// Ends the other thread, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
