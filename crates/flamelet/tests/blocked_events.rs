//! Polls that block the executor, as `tracing` events. The setting is the process', so this program has one test.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How long a poll takes at least.
const LONG: Duration = Duration::from_millis(30);

type Fields = BTreeMap<&'static str, String>;

/// Collects the events of flamelet.
#[derive(Clone, Default)]
struct Collecting(Arc<Mutex<Vec<Fields>>>);

impl Subscriber for Collecting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().target() == "flamelet::blocked" {
            assert_eq!(*event.metadata().level(), Level::WARN);
            let mut fields = Kept(Fields::new());
            event.record(&mut fields);
            self.0.lock().expect("no panic").push(fields.0);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Kept(Fields);

impl Visit for Kept {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// The events of one task with a long poll.
fn events(is_on: bool, task: &str) -> Vec<Fields> {
    let builder = flamelet::Profiler::builder().name("under test").blocked_events(is_on);
    let _profiler = builder.start().expect("started");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let collecting = Collecting::default();
    tracing::subscriber::with_default(collecting.clone(), || {
        let work = flamelet::task(task, async { std::thread::sleep(LONG) });
        runtime.block_on(work);
    });
    let found = collecting.0.lock().expect("no panic");
    found.clone()
}

#[test]
fn a_poll_that_blocks_the_executor_is_an_event_if_asked_for() {
    assert!(events(false, "quiet").is_empty(), "nobody has asked");
    let found = events(true, "slow");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["message"], "a poll blocked the executor");
    assert_eq!(found[0]["task"], "\"slow\"");
    // On a busy machine it may wait for a CPU, and may not be seen in time.
    assert!(["\"system call\"", "\"cpu\""].contains(&&*found[0]["cause"]), "{found:?}");
    let millis: f64 = found[0]["duration_ms"].parse().expect("a number");
    assert!(millis >= LONG.as_secs_f64() * 1e3, "{found:?}");
    assert!(events(false, "quiet again").is_empty());
}
