//! Receivers that are away, busy or broken, for hours of simulated time: nothing is lost, and nothing counts twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flamelet_capture::profile::protobuf::bytes_field;
use flamelet_capture::profile::{LabelSetId, Limits, Profile, ProfileBuilder, pprof};
use flamelet_remote::push::Answer;
use flamelet_store::{Options, Writer};

use super::client::Transport;
use super::pusher::{Next, Pusher, PusherNeeds};
use super::{Push, PushCounters};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
/// The length of a window.
const WINDOW: i64 = 10 * SECOND;
/// When the simulation begins.
const START: i64 = 1_794_700_800 * SECOND;

/// Returns a window whose total is its number plus one.
fn window(number: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frames = [builder.named_frame(&format!("work_{}", number % 7)), builder.named_frame("main")];
    let stack = builder.stack(&frames);
    builder.sample(stack, LabelSetId::EMPTY, &[1, number + 1]);
    let header = builder.header_mut();
    (header.time_nanos, header.duration_nanos) = (START + number * WINDOW, WINDOW);
    builder.finish()
}

/// What a receiver has taken: by id the body, and the ids in the order of their arrival.
#[derive(Default)]
struct ReceivedBodies {
    bodies: BTreeMap<Vec<u8>, Vec<u8>>,
    order: Vec<Vec<u8>>,
    repeats: usize,
}

impl ReceivedBodies {
    fn take(&mut self, body: &[u8]) {
        let (id, _) = read(body);
        match self.bodies.get(&id) {
            Some(known) => {
                assert_eq!(known, body, "a repeated request has the same id and the same bytes");
                self.repeats += 1;
            }
            None => {
                self.bodies.insert(id.clone(), body.to_vec());
                self.order.push(id);
            }
        }
    }

    /// Returns the totals of all windows in the order in which they came.
    fn totals(&self) -> Vec<i64> {
        self.order.iter().map(|id| read(&self.bodies[id]).1.total(1)).collect()
    }
}

/// Returns the id and the profile of a request to Pyroscope.
fn read(body: &[u8]) -> (Vec<u8>, Profile) {
    let field = |message, wanted| bytes_field(message, wanted).expect("a message");
    let sample = field(field(body, 1), 2);
    (field(sample, 2).to_vec(), pprof::read(field(sample, 1), &Limits::SERVICE).expect("pprof"))
}

/// How the receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Up,
    /// Nothing listens.
    Refused,
    Status(u16),
    /// The connection is reset before the request was taken.
    Reset,
    /// The request was taken, but the connection is reset before the answer.
    TakenThenReset,
    /// The request was taken, but the answer takes longer than the client waits.
    TakenThenSilent,
}

impl Mode {
    /// Returns whether a request counts as taken.
    fn takes(self) -> bool {
        matches!(self, Self::Up | Self::TakenThenReset | Self::TakenThenSilent)
    }
}

/// A receiver in memory.
#[derive(Clone)]
struct Fake {
    mode: Rc<RefCell<Mode>>,
    store: Rc<RefCell<ReceivedBodies>>,
}

impl Fake {
    fn new() -> Self {
        Self { mode: Rc::new(RefCell::new(Mode::Up)), store: Rc::default() }
    }
}

impl Transport for Fake {
    fn post(&self, body: &[u8]) -> Result<Answer, String> {
        let mode = *self.mode.borrow();
        if mode.takes() {
            self.store.borrow_mut().take(body);
        }
        match mode {
            Mode::Up => Ok(Answer { status: 200, ..Answer::default() }),
            Mode::Status(429) => {
                Ok(Answer { status: 429, retry_after: Some("7".into()), ..Answer::default() })
            }
            Mode::Status(status) => Ok(Answer { status, ..Answer::default() }),
            other => Err(format!("{other:?}")),
        }
    }
}

/// The service, the receiver's minutes, and the time.
struct Simulation<T> {
    writer: Writer,
    pusher: Pusher<T>,
    counters: Arc<PushCounters>,
    now: i64,
    written: i64,
    /// When the pusher wants to be called next.
    due: i64,
    /// The most bytes that the pusher ever held.
    held: usize,
}

impl<T: Transport> Simulation<T> {
    fn new(folder: &Path, push: Push, transport: T) -> Self {
        let writer = Writer::open(folder, Options::default()).expect("opened");
        let counters = Arc::<PushCounters>::default();
        let pusher = pusher(folder, push, transport, &counters);
        Self { writer, pusher, counters, now: START, written: 0, due: START, held: 0 }
    }

    /// Lets time pass until `minute`.
    fn until(&mut self, minute: i64) {
        let end = START + minute * MINUTE;
        while self.now < end {
            let written_at = START + (self.written + 1) * WINDOW;
            self.now = written_at.min(self.due).min(end).max(self.now);
            if self.now == written_at {
                self.writer.append("cpu", &window(self.written)).expect("written");
                self.written += 1;
            }
            if self.now >= self.due {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let wait = match self.pusher.step(self.now) {
            Next::Now => 0,
            Next::WhenThereIsMore => 5 * SECOND,
            Next::After(wait) => i64::try_from(wait.as_nanos()).expect("a short wait"),
        };
        self.held = self.held.max(self.pusher.held());
        self.due = self.now + wait;
    }

    fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}

fn needs() -> PusherNeeds {
    PusherNeeds { name: "night".into(), receiver: 7, symbolize: None }
}

fn pusher<T: Transport>(folder: &Path, push: Push, transport: T, counters: &Arc<PushCounters>) -> Pusher<T> {
    let mut pusher = Pusher::new(push, folder, needs(), transport, counters.clone());
    pusher.open(START).expect("opened");
    pusher
}

/// Away from minute 5 to 55, in every way that there is.
const OUTAGE: &[(i64, Mode)] = &[
    (5, Mode::Up),
    (15, Mode::Refused),
    (25, Mode::Status(500)),
    (30, Mode::Status(429)),
    (35, Mode::Status(503)),
    (38, Mode::Status(401)),
    (45, Mode::Reset),
    (50, Mode::TakenThenReset),
    (54, Mode::TakenThenSilent),
    (55, Mode::Refused),
    (120, Mode::Up),
];

fn address() -> Push {
    Push::pyroscope("http://receiver:4040")
}

#[test]
fn fifty_minutes_without_the_receiver_lose_nothing_and_count_nothing_twice() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let mut simulation = Simulation::new(folder.path(), address(), fake.clone());
    for &(until, mode) in OUTAGE {
        *fake.mode.borrow_mut() = mode;
        simulation.until(until);
    }
    let store = fake.store.borrow();
    // The last window may have been written in this very moment.
    let arrived = store.totals();
    let expected: Vec<i64> = (1..=arrived.len() as i64).collect();
    assert_eq!(arrived, expected, "in order, each once");
    assert!(simulation.written - arrived.len() as i64 <= 1, "{} of {}", arrived.len(), simulation.written);
    assert_eq!(simulation.sent(), arrived.len() as u64);
    assert_eq!(simulation.dropped(), 0);
    assert!(store.repeats >= 2, "some answers got lost");
    // One window at a time is in memory, however many wait on the disk.
    let largest = store.bodies.values().map(Vec::len).max().unwrap_or(0);
    assert!(simulation.held <= largest, "{} bytes held, the largest window has {largest}", simulation.held);
}

#[test]
fn a_service_that_restarts_during_the_outage_goes_on_where_it_was() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let mut simulation = Simulation::new(folder.path(), address(), fake.clone());
    for (until, mode) in
        [(3, Mode::Up), (10, Mode::Refused), (12, Mode::Up), (20, Mode::Status(500)), (40, Mode::Up)]
    {
        *fake.mode.borrow_mut() = mode;
        simulation.until(until);
        let counters = simulation.counters.clone();
        simulation.pusher = pusher(folder.path(), address(), fake.clone(), &counters);
        simulation.due = simulation.now;
    }
    let store = fake.store.borrow();
    assert_eq!(store.totals(), (1..=store.order.len() as i64).collect::<Vec<_>>());
    assert!(store.order.len() >= 40 * 6 - 2, "{}", store.order.len());
    assert_eq!(store.repeats, 0);
}

#[test]
fn what_became_too_old_is_counted_and_the_rest_arrives() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let push = address().max_age(Duration::from_secs(20 * 60));
    let mut simulation = Simulation::new(folder.path(), push, fake.clone());
    for (until, mode) in [(5, Mode::Up), (55, Mode::Refused), (70, Mode::Up)] {
        *fake.mode.borrow_mut() = mode;
        simulation.until(until);
    }
    let totals = fake.store.borrow().totals();
    assert!(totals.is_sorted_by(|one, other| one < other), "in order, none twice");
    let lost = simulation.dropped();
    // Windows of 30 minutes, and what the last wait before the end of the outage added.
    assert!((170..=190).contains(&lost), "{lost}");
    assert!(simulation.written as u64 - lost - totals.len() as u64 <= 1);
    // The lag was the age of the oldest window, and is gone.
    assert!(simulation.counters.lag.load(Ordering::Relaxed) <= 10 * SECOND as u64);
}

#[test]
fn a_refused_window_does_not_hold_up_the_others() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let mut simulation = Simulation::new(folder.path(), address(), fake.clone());
    for (until, mode) in [(2, Mode::Up), (3, Mode::Status(400)), (5, Mode::Up)] {
        *fake.mode.borrow_mut() = mode;
        simulation.until(until);
    }
    // One window more or less, by the moment at which the receiver changed its mind.
    assert!((5..=7).contains(&simulation.dropped()), "{}", simulation.dropped());
    assert!(simulation.sent() + simulation.dropped() >= 5 * 6 - 1);
    assert!(folder.path().read_dir().expect("listed").count() > 1, "the history has them still");
}

#[test]
fn a_new_receiver_gets_what_is_written_from_now_on() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let mut writer = Writer::open(folder.path(), Options::default()).expect("opened");
    (0..10).for_each(|number| writer.append("cpu", &window(number)).expect("written"));
    let mut pusher = pusher(folder.path(), address(), fake.clone(), &Arc::default());
    assert_eq!(pusher.step(START + 10 * WINDOW), Next::WhenThereIsMore);
    writer.append("cpu", &window(10)).expect("written");
    while pusher.step(START + 11 * WINDOW) == Next::Now {}
    assert_eq!(fake.store.borrow().totals(), [11]);
}

/// Returns the file in which the pusher keeps how far it has come.
fn cursor_in(folder: &Path) -> std::path::PathBuf {
    let entries = folder.read_dir().expect("listed").map(|entry| entry.expect("listed").path());
    entries.into_iter().find(|path| path.extension().is_some_and(|it| it == "cursor")).expect("one")
}

#[test]
fn with_a_damaged_cursor_what_the_receiver_still_takes_is_sent() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let push = || address().max_age(Duration::from_secs(60));
    let mut simulation = Simulation::new(folder.path(), push(), fake.clone());
    simulation.until(3);
    *fake.mode.borrow_mut() = Mode::Refused;
    simulation.until(4);
    for damage in ["", "flamelet cursor 1\n7"] {
        std::fs::write(cursor_in(folder.path()), damage).expect("written");
        *fake.store.borrow_mut() = ReceivedBodies::default();
        *fake.mode.borrow_mut() = Mode::Up;
        let counters = Arc::<PushCounters>::default();
        let mut pusher = Pusher::new(push(), folder.path(), needs(), fake.clone(), counters.clone());
        while pusher.step(simulation.now) == Next::Now {}
        // The windows of the last minute, of which some were sent before.
        assert_eq!(fake.store.borrow().totals(), (19..=24).collect::<Vec<_>>(), "{damage:?}");
        assert_eq!(counters.dropped.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn each_gap_counts_as_dropped() {
    let (folder, fake) = (tempfile::tempdir().expect("a folder"), Fake::new());
    let mut simulation = Simulation::new(folder.path(), address(), fake.clone());
    simulation.until(1);
    for gap in 1..4 {
        *fake.mode.borrow_mut() = Mode::Refused;
        simulation.until(gap * 10);
        simulation.writer.finish_segment();
        simulation.until(gap * 10 + 1);
        let entries = folder.path().read_dir().expect("listed").map(|entry| entry.expect("listed").path());
        let finished: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|it| it == "segment")).collect();
        finished.iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
        *fake.mode.borrow_mut() = Mode::Up;
        simulation.until(gap * 10 + 5);
        assert_eq!(simulation.dropped(), gap as u64);
    }
}
