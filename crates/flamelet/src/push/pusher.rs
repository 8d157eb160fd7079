//! What to send next, and what to do with the answer. It has neither a clock nor a thread of its own, so that tests can
//! let hours pass.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flamelet_capture::profile::{Budget, Limits, Profile, moment};
use flamelet_remote::push::{self, Backoff, Series, Verdict, judge};
use flamelet_store::{Cursor, Follower, NextWindow, Position, Progress, Reader};

use super::client::Transport;
use super::names::KnownNames;
use super::{Push, PushCounters};
use crate::work::problem::to_standard_error;
use crate::{Error, ErrorKind, Result};

/// How long to wait after the history could not be read.
const UNREADABLE: Duration = Duration::from_secs(10);

/// Fills in names.
type Symbolize = Box<dyn Fn(&mut Profile) + Send>;

/// What a pusher needs of the service's profiler.
pub(crate) struct PusherNeeds {
    pub(crate) name: String,
    /// A number for the receiver, by which its cursor is found again.
    pub(crate) receiver: u64,
    /// Fills in names; `None` if the service does not look them up.
    pub(crate) symbolize: Option<Symbolize>,
}

/// When to call [`Pusher::step`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Now,
    WhenThereIsMore,
    After(Duration),
}

/// A window that is being sent.
struct Sending {
    /// Behind it.
    position: Position,
    start: i64,
    end: i64,
    bodies: Vec<Vec<u8>>,
    /// How many of them the receiver has, or never takes.
    done: usize,
    was_refused: bool,
}

/// What is wrong at present, so that it is reported once.
#[derive(Default)]
struct Trouble {
    is_known: bool,
    /// The first window that was too old, and how many there were.
    too_old: Option<(i64, u64)>,
    refusal_is_known: bool,
    gap_is_known: bool,
    cursor_is_known: bool,
}

pub(super) struct Pusher<T> {
    push: Push,
    folder: PathBuf,
    needs: PusherNeeds,
    transport: T,
    counters: Arc<PushCounters>,
    /// `None` until the folder can be opened for the first time.
    cursor: Option<Cursor>,
    /// Reads the history; `None` until the folder can be opened.
    follower: Option<Follower>,
    names: KnownNames,
    progress: Progress,
    sending: Option<Sending>,
    /// What the history was like when it had nothing to send.
    seen: Option<(u64, u64)>,
    backoff: Backoff,
    trouble: Trouble,
}

impl<T: Transport> Pusher<T> {
    pub(super) fn new(
        push: Push,
        folder: &Path,
        needs: PusherNeeds,
        transport: T,
        counters: Arc<PushCounters>,
    ) -> Self {
        let seed = u64::from(std::process::id()) << 32 ^ super::now() as u64;
        let folder = folder.to_owned();
        let (progress, trouble) = (Progress::default(), Trouble::default());
        Self {
            push,
            folder,
            needs,
            transport,
            counters,
            cursor: None,
            follower: None,
            names: KnownNames::default(),
            progress,
            sending: None,
            seen: None,
            backoff: Backoff::new(seed),
            trouble,
        }
    }

    /// Does one thing: reads a window, sends a part of it, or finds that there is nothing to do. `now` is in nanoseconds
    /// since 1970.
    pub(super) fn step(&mut self, now: i64) -> Next {
        let stepped = catch_unwind(AssertUnwindSafe(|| self.try_step(now)));
        let bug = || Error::new(ErrorKind::Internal, "a window could not be sent (a bug in flamelet)");
        let next = stepped.unwrap_or_else(|_| {
            self.skip_what_panics();
            Err(bug())
        });
        next.unwrap_or_else(|error| {
            self.report(&error.to_string());
            Next::After(UNREADABLE)
        })
    }

    fn try_step(&mut self, now: i64) -> Result<Next> {
        if self.cursor.is_none() {
            self.open(now)?;
        }
        if self.sending.is_none() && !self.take_next(now)? {
            self.counters.lag.store(0, Ordering::Relaxed);
            return Ok(Next::WhenThereIsMore);
        }
        let Some(sending) = &self.sending else { return Ok(Next::Now) };
        let age = Duration::from_nanos(u64::try_from(now.saturating_sub(sending.end)).unwrap_or(0));
        self.counters.lag.store(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if age > self.push.max_age {
            return self.give_up_as_too_old();
        }
        self.send()
    }

    /// Finds out how far it has come. Without a cursor, the past is not sent. With one that cannot be read, what the
    /// receiver still takes is sent: some of it again, but none is lost.
    pub(super) fn open(&mut self, now: i64) -> Result<()> {
        let cursor = Cursor::new(&self.folder, &format!("push-{:016x}", self.needs.receiver))?;
        let (reader, budget) = (Reader::open(&self.folder)?, Budget::new(Limits::SERVICE));
        let new = match cursor.read() {
            Ok(Some(progress)) => {
                self.progress = progress;
                self.cursor = Some(cursor);
                return Ok(());
            }
            Ok(None) => reader.last_position(&budget)?,
            Err(error) => {
                self.report_cursor(&error.to_string());
                reader.position_at(now.saturating_sub(self.max_age()), &budget)?
            }
        };
        self.progress = Progress { position: new, parts: 0 };
        cursor.write(self.progress)?;
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Returns how old windows may be, in nanoseconds.
    fn max_age(&self) -> i64 {
        i64::try_from(self.push.max_age.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Takes the next window, if there is one.
    fn take_next(&mut self, now: i64) -> Result<bool> {
        let mut follower = match self.follower.take() {
            Some(follower) => follower,
            None => Follower::new(Reader::open(&self.folder)?),
        };
        let taken = self.take_from(&mut follower, now);
        self.follower = Some(follower);
        taken
    }

    fn take_from(&mut self, follower: &mut Follower, now: i64) -> Result<bool> {
        let stamp = follower.reader().stamp()?;
        if self.seen == Some(stamp) {
            return Ok(false);
        }
        let budget = Budget::new(Limits::SERVICE);
        let Some(window) = follower.next_window(self.progress.position, &budget)? else {
            self.seen = Some(stamp);
            return Ok(false);
        };
        if window.has_gap {
            self.report_gap();
        }
        if window.profile.sample_count() == 0 {
            // Nothing ran; receivers refuse empty profiles.
            self.finish(window.position)?;
            return Ok(true);
        }
        self.sending = Some(self.prepare(follower.reader(), window, now, &budget)?);
        Ok(true)
    }

    fn prepare(&mut self, reader: &Reader, window: NextWindow, now: i64, budget: &Budget) -> Result<Sending> {
        let NextWindow { position, kind, mut profile, .. } = window;
        let header = &profile.header;
        let (start, end) = (header.time_nanos, header.time_nanos.saturating_add(header.duration_nanos));
        let is_too_old = now.saturating_sub(end) > self.max_age();
        let mut sending = Sending { position, start, end, bodies: Vec::new(), done: 0, was_refused: false };
        if is_too_old {
            return Ok(sending);
        }
        if let Some(symbolize) = &self.needs.symbolize {
            self.names.add_to(&mut profile);
            // These do next to nothing if all code has names.
            reader.add_names(&mut profile, budget)?;
            symbolize(&mut profile);
            self.names.learn(&profile);
        }
        let series = Series {
            name: push::prepare(self.push.protocol, &kind, &mut profile),
            service: self.push.service.as_deref().unwrap_or(&self.needs.name),
            labels: &self.push.labels,
        };
        if profile.sample_count() > 0 {
            sending.bodies = self.push.protocol.bodies(&profile, &series)?;
        }
        sending.done = self.progress.parts.min(sending.bodies.len());
        Ok(sending)
    }

    /// Sends the next part.
    fn send(&mut self) -> Result<Next> {
        let Some(sending) = &mut self.sending else { return Ok(Next::Now) };
        let Some(body) = sending.bodies.get(sending.done) else {
            let position = sending.position;
            self.finish(position)?;
            return Ok(Next::Now);
        };
        let verdict = match self.transport.post(body) {
            Ok(answer) => judge(self.push.protocol, &answer),
            Err(why) => Verdict::Later(why, None),
        };
        match verdict {
            Verdict::Accepted => self.part_is_done(false),
            Verdict::Refused(why) => {
                self.report_refusal(&why);
                self.part_is_done(true)
            }
            Verdict::TooOld(_) => self.give_up_as_too_old(),
            Verdict::Later(why, asked) => {
                count(&self.counters.retries);
                self.report(&why);
                Ok(Next::After(self.backoff.next(asked)))
            }
        }
    }

    fn part_is_done(&mut self, was_refused: bool) -> Result<Next> {
        self.backoff.reset();
        self.report_recovery();
        let Some(sending) = &mut self.sending else { return Ok(Next::Now) };
        sending.done += 1;
        sending.was_refused |= was_refused;
        if sending.done < sending.bodies.len() {
            self.progress.parts = sending.done;
            self.keep_progress()?;
            return Ok(Next::Now);
        }
        let position = sending.position;
        count(if sending.was_refused { &self.counters.dropped } else { &self.counters.sent });
        self.finish(position)?;
        Ok(Next::Now)
    }

    /// Continues after a window.
    fn finish(&mut self, position: Position) -> Result<()> {
        self.sending = None;
        self.progress = Progress { position, parts: 0 };
        self.keep_progress()
    }

    fn keep_progress(&self) -> Result<()> {
        self.cursor.as_ref().map_or(Ok(()), |cursor| cursor.write(self.progress))
    }

    fn give_up_as_too_old(&mut self) -> Result<Next> {
        let Some(sending) = &self.sending else { return Ok(Next::Now) };
        let (position, start) = (sending.position, sending.start);
        count(&self.counters.dropped);
        let (first, windows) = self.trouble.too_old.unwrap_or((start, 0));
        if windows == 0 {
            let (from, address) = (moment::format(start), self.push.shown_address());
            to_standard_error(&format!(
                "windows from {from} on are too old for {address}; they are only in the history"
            ));
        }
        self.trouble.too_old = Some((first, windows + 1));
        self.finish(position)?;
        Ok(Next::Now)
    }

    /// Returns how many bytes are held in memory to be sent.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.sending.as_ref().map_or(0, |sending| sending.bodies.iter().map(Vec::len).sum())
    }

    /// Continues after a window that cannot be handled.
    fn skip_what_panics(&mut self) {
        let sending = self.sending.take().map(|sending| sending.position);
        let next = || {
            let mut follower = Follower::new(Reader::open(&self.folder).ok()?);
            let window =
                follower.next_window(self.progress.position, &Budget::new(Limits::SERVICE)).ok()??;
            Some(window.position)
        };
        let position = sending.or_else(|| catch_unwind(AssertUnwindSafe(next)).ok().flatten());
        if let Some(position) = position {
            count(&self.counters.dropped);
            let _ = self.finish(position);
        }
    }

    /// Counts windows that the history removed before they were sent, as one: their number is unknown.
    fn report_gap(&mut self) {
        count(&self.counters.dropped);
        if !std::mem::replace(&mut self.trouble.gap_is_known, true) {
            let address = self.push.shown_address();
            to_standard_error(&format!(
                "the history removed windows before {address} had received them; keep more history"
            ));
        }
    }

    fn report_cursor(&mut self, why: &str) {
        if !std::mem::replace(&mut self.trouble.cursor_is_known, true) {
            let address = self.push.shown_address();
            to_standard_error(&format!(
                "it is unknown which profiles {address} has ({why}); sending again what it still accepts"
            ));
        }
    }

    /// Reports a problem once, until it is over.
    fn report(&mut self, why: &str) {
        if !std::mem::replace(&mut self.trouble.is_known, true) {
            let address = self.push.shown_address();
            to_standard_error(&format!("profiles cannot be pushed to {address} ({why}); trying again"));
        }
    }

    fn report_refusal(&mut self, why: &str) {
        if !std::mem::replace(&mut self.trouble.refusal_is_known, true) {
            let address = self.push.shown_address();
            to_standard_error(&format!("{address} refuses a profile ({why}); it is only in the history"));
        }
    }

    fn report_recovery(&mut self) {
        let address = self.push.shown_address();
        if std::mem::take(&mut self.trouble.is_known) {
            to_standard_error(&format!("profiles are pushed to {address} again"));
        }
        if let Some((first, windows)) = self.trouble.too_old.take() {
            let from = moment::format(first);
            to_standard_error(&format!("{windows} windows from {from} on were too old for {address}"));
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
