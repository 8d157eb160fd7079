//! A storm of labels, services and hours is refused loudly, and takes a bounded memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flamelet_collect::{Collector, Offered, Options, Outside};
use flamelet_profile::{LabelSetId, ProfileBuilder, pprof};
use flamelet_test_support::{CountingAllocator, most_allocated};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Nowhere;

impl Outside for Nowhere {
    fn note(&self, message: &str) {
        panic!("unexpected: {message}");
    }
}

/// 15 January 2026, 10:00 UTC.
const T0: i64 = 1_768_471_200_000_000_000;
const HOUR: i64 = 3_600_000_000_000;
const MIB: usize = 1 << 20;

/// Services that send, and what each of them sends: requests, and the samples of each.
const SERVICES: usize = 24;
const REQUESTS: usize = 27;
const SAMPLES: usize = 200;

/// Returns a profile each of whose samples has a label of its own, as of a service that labels its requests.
fn storm(service: usize, request: usize) -> Offered {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    builder.header_mut().time_nanos = T0 + (request % 2) as i64 * HOUR + request as i64 * 1000;
    let frame = builder.named_frame("handle");
    let stack = builder.stack(&[frame]);
    for sample in 0..SAMPLES {
        let number = (service * REQUESTS + request) * SAMPLES + sample;
        let label = builder.text_label("request_id", &format!("{number:064x}"));
        let labels = builder.labels(&[label]);
        builder.sample(stack, labels, &[10]);
    }
    builder.sample(stack, LabelSetId::EMPTY, &[10]);
    let mut bytes = Vec::new();
    pprof::write_gzip(&builder.finish(), &mut bytes).expect("written");
    let name = Some("process_cpu".to_owned());
    Offered { service: format!("storm-{service}"), name, is_delta: true, bytes, ..Offered::default() }
}

#[test]
fn a_storm_of_labels_takes_a_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::new(folder.path());
    options.keep = Duration::from_secs(100 * 365 * 86_400);
    options.caps.series = 2000;
    options.caps.services = SERVICES - 4;
    let collector = Collector::open(options, Box::new(Nowhere)).expect("opened");
    let [kept, too_many_series, too_many_services] = [const { AtomicUsize::new(0) }; 3];
    let send = |service: usize| {
        for request in 0..REQUESTS {
            let counter = match collector.accept(&storm(service, request)) {
                Ok(()) => &kept,
                Err(refused) if refused.status == 429 && refused.message.contains("limits.series") => {
                    &too_many_series
                }
                Err(refused) if refused.status == 429 && refused.message.contains("limits.services") => {
                    &too_many_services
                }
                Err(refused) => panic!("{refused:?}"),
            };
            counter.fetch_add(1, Ordering::SeqCst);
            if collector.is_due() {
                collector.maintain();
            }
        }
    };
    let ((), used) = most_allocated(|| {
        std::thread::scope(|scope| {
            for half in 0..2 {
                let send = &send;
                scope.spawn(move || (half..SERVICES).step_by(2).for_each(send));
            }
        });
        collector.close();
    });
    let counts = [&kept, &too_many_series, &too_many_services].map(|count| count.load(Ordering::SeqCst));
    // Of each service, nine profiles in each of both hours.
    assert_eq!(counts[0], 18 * (SERVICES - 4), "{counts:?}");
    assert_eq!(counts[2], 4 * REQUESTS, "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), SERVICES * REQUESTS, "nothing is dropped silently");
    assert!(used < 256 * MIB, "{} MiB", used / MIB);
}
