//! The time.

#[cfg(test)]
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(test)]
thread_local! {
    static AHEAD: Cell<i64> = const { Cell::new(0) };
}

/// Returns the present moment in nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    #[cfg(test)]
    let now = now + AHEAD.get();
    now
}

/// Does some work as on a machine whose clock is ahead by this many nanoseconds.
#[cfg(test)]
fn ahead<T>(by: i64, work: impl FnOnce() -> T) -> T {
    let before = AHEAD.replace(by);
    let done = work();
    AHEAD.set(before);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use flamelet_profile::{Budget, LabelSetId, Limits, ProfileBuilder, Result, moment, pprof};

    use super::*;
    use crate::store::folder::BlockFolder;
    use crate::{Collector, Listing, Offered, Options, Outside, Query, Reader, Store};

    const HOUR: i64 = 3_600_000_000_000;

    /// A folder as a bucket with a clock that is right.
    #[derive(Debug)]
    struct Bucket(BlockFolder);

    impl Store for Bucket {
        fn list(&self, folder: &str) -> Result<Listing> {
            self.0.list(folder)
        }

        fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
            self.0.get(path, most)
        }

        fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
            self.0.create(path, bytes)
        }

        fn delete(&self, path: &str) -> Result<()> {
            self.0.delete(path)
        }

        fn time(&self) -> Result<Option<i64>> {
            Ok(Some(ahead(0, now)))
        }

        fn is_shared(&self) -> bool {
            true
        }

        fn shown(&self, path: &str) -> String {
            self.0.shown(path)
        }
    }

    struct Silent;

    impl Outside for Silent {
        fn note(&self, _: &str) {}
    }

    /// A collector on a machine with a clock of its own.
    struct Machine {
        ahead: i64,
        collector: Collector,
        _disk: tempfile::TempDir,
    }

    impl Machine {
        fn new(bucket: &Arc<Bucket>, by: i64) -> Self {
            Self::keeping(bucket, by, Duration::from_secs(6 * 3600))
        }

        fn keeping(bucket: &Arc<Bucket>, by: i64, keep: Duration) -> Self {
            let disk = tempfile::tempdir().expect("a folder");
            let mut options = Options::shared(disk.path());
            (options.keep, options.grace) = (keep, Duration::ZERO);
            let open = || Collector::open_shared(bucket.clone(), options, Box::new(Silent)).expect("opened");
            Self { ahead: by, collector: ahead(by, open), _disk: disk }
        }

        /// Sends profile number `n` with `10^n` samples; returns the status.
        fn send(&self, time: i64, number: u32) -> u16 {
            let mut builder = ProfileBuilder::new(&[("samples", "count")]);
            builder.header_mut().time_nanos = time + i64::from(number) * 1000;
            let frame = builder.named_frame("main");
            let stack = builder.stack(&[frame]);
            builder.sample(stack, LabelSetId::EMPTY, &[10i64.pow(number)]);
            let bytes = pprof::encode(&builder.finish());
            let offered = Offered {
                service: "shop".to_owned(),
                name: Some("cpu".to_owned()),
                bytes,
                ..Offered::default()
            };
            let accepted = ahead(self.ahead, || self.collector.accept(&offered));
            accepted.err().map_or(200, |refused| refused.status)
        }

        fn maintain(&self) {
            ahead(self.ahead, || self.collector.maintain());
        }
    }

    #[test]
    fn collectors_whose_clocks_are_hours_apart_lose_nothing_and_count_nothing_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = Arc::new(Bucket(BlockFolder::create(folder.path()).expect("made")));
        let [fast, slow] = [3 * HOUR, -3 * HOUR].map(|by| Machine::new(&bucket, by));
        let right = Machine::new(&bucket, 0);
        let (time, late) = (now() - 4 * HOUR, now() - 60_000_000_000);
        assert_eq!(fast.send(time, 0), 400, "for this clock it is older than what is kept");
        assert_eq!(slow.send(late, 0), 400, "for this clock it is of the future");
        let total = || {
            let reader = Reader::open_shared(bucket.clone()).expect("opened");
            let query = Query::new("shop", "cpu", time - HOUR, now() + HOUR);
            let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
            assert_eq!(notes, Vec::<String>::new());
            profile.map_or(0, |profile| profile.total(0))
        };
        let mut expected = 0;
        for (round, machine) in [&slow, &right, &fast, &right, &slow, &right].into_iter().enumerate() {
            let (time, number) = (if machine.ahead > 0 { late } else { time }, round as u32);
            assert_eq!(machine.send(time, number), 200, "round {round}");
            // Another one has it too, unless its clock refuses it.
            right.send(time, number);
            expected += 10i64.pow(number);
            for machine in [&fast, &right, &slow] {
                machine.maintain();
            }
            assert_eq!(total(), expected, "round {round}");
        }
    }

    /// The code is written before the first block that refers to it, perhaps by a collector whose clock is behind.
    #[test]
    fn code_of_a_day_stays_while_another_clock_that_is_believed_accepts_profiles_of_it() {
        const MINUTE: i64 = HOUR / 60;
        let folder = tempfile::tempdir().expect("a folder");
        let bucket = Arc::new(Bucket(BlockFolder::create(folder.path()).expect("made")));
        let today = now().div_euclid(24 * HOUR) * 24 * HOUR;
        let yesterday: String = moment::format(today - HOUR).chars().take(10).collect();
        let code = format!("blocks/~code/{yesterday}~a");
        bucket.create(&format!("{code}/one/stacks.parquet"), b"code").expect("written");
        // For a clock that is right, profiles of yesterday's last minutes are not too old; for this one, they are.
        let keep = u64::try_from(now() - today + 25 * MINUTE).expect("after midnight");
        drop(Machine::keeping(&bucket, 50 * MINUTE, Duration::from_nanos(keep)));
        assert_eq!(bucket.list(&format!("{code}/one")).expect("listed").files, ["stacks.parquet"]);
    }
}
