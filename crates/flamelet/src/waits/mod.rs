//! Profiles of waiting: locks and who holds them, awaits, and the live tasks.

mod idle;
mod kinds;
mod names;
mod tasks;
mod threads;

use flamelet_capture::profile::Profile;
use flamelet_capture::wait::{self, Row, Rows, Side};

use crate::symbols::Symbols;
use crate::{Error, ErrorKind, Profiler, Result, locks};
use kinds::{Kind, Kinds};
#[cfg(feature = "http")]
pub(crate) use tasks::{one_task_json, task_and_thread_profile, task_json};
pub(crate) use tasks::{task_profile, task_text};

/// Which waits a profile shows, and by which stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitView {
    /// Waits of threads, by the stack that waited.
    Block,
    /// Waits for locks, by the stack that held the lock and let go of it.
    Mutex,
    /// Awaits of tasks.
    Await,
    /// Polls that took long.
    Blocked,
}

impl WaitView {
    /// Returns the name of its endpoint, and of its windows in a history.
    #[cfg(any(feature = "history", feature = "http"))]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Mutex => "mutex",
            Self::Await => "await",
            Self::Blocked => "blocked",
        }
    }

    /// Returns a copy of what was counted so far.
    pub(crate) fn rows(self) -> Rows {
        match self {
            Self::Block | Self::Mutex => wait::locks::snapshot(),
            Self::Await => wait::tasks::snapshot(),
            Self::Blocked => wait::tasks::long_polls::snapshot(),
        }
    }

    /// Makes a profile of `rows`, with names.
    pub(crate) fn profile(self, profiler: &Profiler, rows: &Rows) -> Profile {
        let profile = self.unnamed_profile(Some(profiler.symbols()), rows);
        profiler.complete(profile, profiler.shared().settings.symbolize)
    }

    /// Makes a profile of `rows` without names. The kind of lock of each row is known only from `symbols`.
    pub(crate) fn unnamed_profile(self, symbols: Option<&Symbols>, rows: &Rows) -> Profile {
        match self {
            Self::Await => wait::profile(rows, Side::Waiter, "awaits", |row| part(row, "awaiting")),
            Self::Blocked => wait::profile(rows, Side::Waiter, "polls", |row| part(row, held_up(row))),
            Self::Block | Self::Mutex => self.lock_profile(symbols, rows),
        }
    }

    fn lock_profile(self, symbols: Option<&Symbols>, rows: &Rows) -> Profile {
        let kinds = symbols.map(|symbols| Kinds::of(symbols, rows));
        let kind = |row: &Row| kinds.as_ref()?.of_row(row);
        let is_idle = |row: &Row| {
            !kind(row).is_some_and(Kind::is_lock) && kinds.as_ref().is_some_and(|kinds| kinds.is_idle(row))
        };
        let label = |row: &Row| {
            let kind = kind(row).map(|kind| ("kind", kind.name()));
            part(row, "blocked").into_iter().chain(kind).collect()
        };
        if self == Self::Block {
            let busy = rows.filtered(|row| !is_idle(row));
            let mut profile = wait::profile(&busy, Side::Waiter, "contentions", label);
            note_idle(&mut profile, rows.iter().filter(|row| is_idle(row)));
            return with_rate(profile);
        }
        let held = rows.filtered(|row| kind(row).is_none_or(Kind::is_lock) && !is_idle(row));
        with_rate(wait::profile(&held, Side::Releaser, "contentions", label))
    }
}

/// Says if waits are not counted now: what the profile shows is older.
fn with_rate(mut profile: Profile) -> Profile {
    if wait::locks::rate() == 0 {
        profile.add_comment("flamelet: waits are not counted now: the rate is 0");
    }
    profile
}

/// Says how many waits of workers without work are not in a profile.
fn note_idle<'a>(profile: &mut Profile, idle: impl Iterator<Item = &'a Row>) {
    let (count, nanos) =
        idle.fold((0i64, 0i64), |sum, row| (sum.0 + row.count(), sum.1.saturating_add(row.nanos())));
    if count > 0 {
        let seconds = nanos as f64 / 1e9;
        profile.add_comment(&format!("flamelet: {count} waits of idle threads set aside, {seconds:.3} s"));
    }
}

/// Returns the label of a request's part; none if it was no request that waited.
fn part(row: &Row, part: &'static str) -> Vec<(&'static str, &'static str)> {
    let is_request = row.labels.iter().any(|(name, _)| name == "route");
    if is_request { vec![("part", part)] } else { Vec::new() }
}

/// Returns the part in which a request has held up the executor.
fn held_up(row: &Row) -> &'static str {
    let is_busy = row.labels.iter().any(|(name, value)| name == "cause" && value == "cpu");
    if is_busy { "cpu" } else { "blocked" }
}

impl Profiler {
    /// Returns where threads were blocked since the start, and for how long, as at `/debug/pprof/block`: locks, condition
    /// variables, channels, joins. The label `kind` says which, where the stack shows it. Idle threads of tokio and rayon are left
    /// out; a comment counts their waits. Needs [`lock_profiling!`](crate::lock_profiling).
    pub fn block(&self) -> Result<Profile> {
        self.wait_profile(WaitView::Block)
    }

    /// Returns where locks were released for which others had waited since the start, and how long they had waited, as
    /// at `/debug/pprof/mutex`. Needs [`lock_profiling!`](crate::lock_profiling).
    pub fn mutex(&self) -> Result<Profile> {
        self.wait_profile(WaitView::Mutex)
    }

    /// Returns where tasks have awaited since the start, and for how long, as at `/debug/pprof/await`.
    pub fn awaits(&self) -> Profile {
        WaitView::Await.profile(self, &WaitView::Await.rows())
    }

    /// Returns where tasks have held up the executor since the start, by polls that took longer than
    /// [`blocked_threshold`](crate::ProfilerBuilder::blocked_threshold), as at `/debug/pprof/blocked`. The label `cause`
    /// says why.
    pub fn blocked_polls(&self) -> Profile {
        WaitView::Blocked.profile(self, &WaitView::Blocked.rows())
    }

    /// Returns where all threads are during the next `duration`, running or not, as at `/debug/pprof/wall`. Blocks the
    /// calling thread meanwhile. Idle threads of tokio and rayon are left out; a comment counts them.
    ///
    /// Threads are looked at 20 times a second. A thread that has run since the last look gets a signal, which may end a
    /// system call that the kernel does not restart, such as `epoll_wait`, with `EINTR`.
    #[cfg(any(feature = "cpu", feature = "http"))]
    pub fn wall(&self, duration: std::time::Duration) -> Result<Profile> {
        let cancel = std::sync::Arc::default();
        self.end_with_service(&cancel);
        let clock = look_around(&cancel, duration, WALL_FREQUENCY)?;
        Ok(wall_profile(self, clock))
    }

    /// Returns the live tasks, by where they await, as at `/debug/pprof/goroutine`, but without the threads.
    pub fn live_tasks(&self) -> Profile {
        task_profile(self)
    }

    /// Returns the live tasks as text, as at `/debug/pprof/goroutine?debug=2`: each with its name, its age, for how long
    /// it has awaited and where, the longest wait first. The threads follow, with their states and stacks.
    ///
    /// Threads are asked for their stacks by a signal, see [`wall`](Self::wall).
    pub fn live_tasks_text(&self) -> String {
        task_text(self)
    }

    fn wait_profile(&self, view: WaitView) -> Result<Profile> {
        if !locks::is_installed() {
            return Err(Error::new(ErrorKind::NotEnabled, NO_HOOK));
        }
        Ok(view.profile(self, &view.rows()))
    }
}

/// How often threads are looked at in a second.
#[cfg(any(feature = "cpu", feature = "http"))]
pub(crate) const WALL_FREQUENCY: u32 = 20;

/// Looks at all threads for `duration`, or until the service ends.
#[cfg(any(feature = "cpu", feature = "http"))]
pub(crate) fn look_around(
    cancel: &std::sync::Arc<crate::work::background::Cancel>,
    duration: std::time::Duration,
    frequency: u32,
) -> Result<wait::wall::WallClock> {
    use std::time::{Duration, Instant};

    // The thread that has asked for this is done by then. Caught on its way, it would seem to stay there.
    const SETTLED: Duration = Duration::from_millis(10);
    cancel.sleep(SETTLED)?;
    let mut clock = wait::wall::WallClock::start()?;
    let (start, period) = (Instant::now(), Duration::from_secs(1) / frequency.max(1));
    clock.look();
    while start.elapsed() < duration && !cancel.is_ended() {
        cancel.sleep(period.min(duration.saturating_sub(start.elapsed())))?;
        clock.look();
    }
    Ok(clock)
}

/// Makes the profile, without idle threads.
#[cfg(any(feature = "cpu", feature = "http"))]
pub(crate) fn wall_profile(profiler: &Profiler, clock: wait::wall::WallClock) -> Profile {
    let idle = idle::Idle::of(profiler, clock.stacks());
    let profile = clock.finish(|stack| idle.is_idle(stack));
    profiler.complete(profile, profiler.shared().settings.symbolize)
}

/// Why there are no lock profiles.
pub(crate) const NO_HOOK: &str =
    "lock profiling is not enabled in this service: it needs `flamelet::lock_profiling!()` in the program";
