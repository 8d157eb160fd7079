//! CPU profiles: for a set time, or until they are finished.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use flamelet_capture::cpu::{self, Engine, Options, Session};
use flamelet_capture::profile::Profile;

use super::Profiler;
use super::metrics::count;
use crate::work::background::{self, Background, Cancel};
use crate::{Error, ErrorKind, Result};

impl Profiler {
    /// Requests a profile of where CPU time goes during the next `duration`.
    ///
    /// The request can be changed, and then [`run`](CpuRequest::run) on this thread or awaited: with `.await` it runs
    /// on its own thread, under any runtime, and ends early when the future is dropped.
    ///
    /// ```no_run
    /// # async fn example(profiler: flamelet::Profiler) -> Result<(), flamelet::Error> {
    /// use std::time::Duration;
    /// let profile = profiler.cpu(Duration::from_secs(10)).frequency(999).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cpu(&self, duration: Duration) -> CpuRequest {
        let settings = &self.shared.settings;
        let (options, symbolize) = (settings.cpu.clone(), settings.symbolize);
        CpuRequest { profiler: self.clone(), duration, options, symbolize }
    }

    /// Starts a capture that runs until [`CpuCapture::finish`].
    pub fn start(&self) -> Result<CpuCapture> {
        self.cpu(Duration::ZERO).start()
    }

    /// Returns where CPU time went during the last `span`, or as much of it as is kept, without waiting. Needs
    /// [`ProfilerBuilder::continuous`](super::ProfilerBuilder::continuous).
    ///
    /// With symbolizing on, this looks up names, which can take a second for the first profile of a large program: in
    /// async code, call it on a blocking thread. Sampling, other captures and [`Profiler::metrics`] continue
    /// meanwhile; only other calls that look up names wait for their turn.
    #[cfg(feature = "continuous")]
    pub fn last(&self, span: Duration) -> Result<Profile> {
        let Some((recent, _)) = &self.shared.recent else {
            let message = "continuous sampling is off: build the profiler with `.continuous(…)`";
            return Err(Error::new(ErrorKind::NotEnabled, message));
        };
        let profile = self.complete_cpu(recent.last(span), self.shared.settings.symbolize);
        count(&self.shared.counters.served);
        Ok(profile)
    }

    /// Completes a CPU profile: what requests have used is their part `cpu`.
    fn complete_cpu(&self, mut profile: Profile, symbolize: bool) -> Profile {
        profile.label_with("route", "part", "cpu");
        self.complete(profile, symbolize)
    }

    /// Returns how far back [`Profiler::last`] reaches.
    #[cfg(feature = "continuous")]
    pub fn remembered(&self) -> Option<Duration> {
        self.shared.recent.as_ref().map(|(_, span)| *span)
    }
}

/// A request for a CPU profile, see [`Profiler::cpu`].
#[derive(Clone, Debug)]
#[must_use = "nothing is captured until `run` or `.await`"]
pub struct CpuRequest {
    profiler: Profiler,
    duration: Duration,
    options: Options,
    symbolize: bool,
}

impl CpuRequest {
    /// Sets the samples per second of CPU time.
    pub fn frequency(mut self, hertz: u32) -> Self {
        self.options.frequency = hertz;
        self
    }

    /// Sets how samples are taken. [`Engine::Perf`] may, as root or with `CAP_PERFMON`, end a sleep or a wait of the
    /// service with `EINTR`.
    ///
    /// A process has one sampler: while another capture runs, or sampling is continuous, their engine is used, and
    /// the profile says so.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.options.engine = engine;
        self
    }

    /// Sets whether the service looks up function names for this profile.
    pub fn symbolize(mut self, symbolize: bool) -> Self {
        self.symbolize = symbolize;
        self
    }

    /// Limits a client's capture to its share of the memory: the more captures run, the less each one
    /// gets.
    #[cfg(feature = "http")]
    pub(crate) fn sharing_memory(mut self) -> Self {
        const LEAST: usize = 4 << 20;
        let running = self.profiler.shared.counters.running.load(std::sync::atomic::Ordering::Relaxed).max(1);
        let budget = self.options.memory_budget;
        self.options.memory_budget = (budget / running).max(LEAST.min(budget));
        self
    }

    /// Captures on this thread and blocks it meanwhile. In async code, `.await` the request instead.
    pub fn run(self) -> Result<Profile> {
        self.run_unless(&Arc::default())
    }

    /// Starts a capture that runs until [`CpuCapture::finish`], whatever the duration of the request.
    pub fn start(self) -> Result<CpuCapture> {
        let counters = &self.profiler.shared.counters;
        let session = cpu::start(&self.options).inspect_err(|_| count(&counters.failed))?;
        let (symbolize, profiler) = (self.symbolize, self.profiler);
        Ok(CpuCapture { session: Some(session), is_served: false, symbolize, profiler })
    }

    pub(crate) fn run_unless(self, cancel: &Arc<Cancel>) -> Result<Profile> {
        let duration = self.duration;
        self.profiler.end_with_service(cancel);
        let capture = self.start()?;
        cancel.sleep(duration)?;
        capture.finish_while(|| !cancel.is_cancelled())
    }
}

impl IntoFuture for CpuRequest {
    type Output = Result<Profile>;
    type IntoFuture = CpuTask;

    fn into_future(self) -> CpuTask {
        CpuTask {
            task: background::spawn("flamelet-cpu", move |cancel| self.run_unless(cancel)).map_err(Some),
        }
    }
}

/// A CPU capture on its own thread. Dropping it ends the capture.
#[derive(Debug)]
pub struct CpuTask {
    task: Result<Background<Result<Profile>>, Option<Error>>,
}

impl Future for CpuTask {
    type Output = Result<Profile>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Profile>> {
        match &mut self.task {
            Ok(task) => Pin::new(task).poll(context).map(|outcome| outcome.and_then(|profile| profile)),
            Err(error) => Poll::Ready(Err(error
                .take()
                .unwrap_or_else(|| Error::new(ErrorKind::Internal, "polled after its end")))),
        }
    }
}

/// A running capture, which ends with [`CpuCapture::finish`], see [`Profiler::start`].
#[derive(Debug)]
#[must_use = "the capture is thrown away when this is dropped"]
pub struct CpuCapture {
    /// `None` after `finish`.
    session: Option<Session>,
    /// Whether its profile was made and delivered.
    is_served: bool,
    symbolize: bool,
    profiler: Profiler,
}

impl CpuCapture {
    /// Returns what was sampled so far; the capture continues. Like [`finish`](Self::finish), this looks up names.
    pub fn snapshot(&self) -> Profile {
        let profile = self.session.as_ref().map(Session::snapshot).unwrap_or_default();
        self.profiler.complete_cpu(profile, self.symbolize)
    }

    /// Ends the capture and returns its profile. With symbolizing on, this looks up names, which can take a second
    /// for the first profile of a large program: in async code, call it on a blocking thread.
    pub fn finish(mut self) -> Profile {
        let raw = self.end();
        let profile = self.profiler.complete_cpu(raw, self.symbolize);
        self.serve();
        profile
    }

    /// Like [`finish`](Self::finish), for a client that may go away: names are looked up only if it is still waiting.
    pub(crate) fn finish_while(mut self, is_wanted: impl Fn() -> bool) -> Result<Profile> {
        let raw = self.end();
        if !is_wanted() {
            return Err(background::cancelled());
        }
        let profile = self.profiler.complete_cpu(raw, self.symbolize);
        if !is_wanted() {
            return Err(background::cancelled());
        }
        self.serve();
        Ok(profile)
    }

    /// Ends the sampling.
    fn end(&mut self) -> Profile {
        self.session.take().map(Session::finish).unwrap_or_default()
    }

    fn serve(&mut self) {
        self.is_served = true;
        count(&self.profiler.shared.counters.served);
    }
}

impl Drop for CpuCapture {
    fn drop(&mut self) {
        if !self.is_served {
            count(&self.profiler.shared.counters.cancelled);
        }
    }
}

#[cfg(all(test, feature = "continuous"))]
mod tests {
    use super::*;
    use crate::Continuous;
    use crate::work::lock::lock;
    use std::sync::mpsc;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Tells a test that names are being looked up, and waits until the test lets it continue.
    fn stop_at_names(profiler: &Profiler) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (enter, entered) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        let look_up = move || {
            enter.send(()).unwrap_or_default();
            left.recv_timeout(2 * DEADLINE).unwrap_or_default();
        };
        *lock(&profiler.shared.symbols.meanwhile) = Some(Box::new(look_up));
        (entered, leave)
    }

    fn served_and_cancelled(profiler: &Profiler) -> (u64, u64) {
        let metrics = profiler.metrics();
        (metrics.captures_served, metrics.captures_cancelled)
    }

    #[test]
    fn no_names_are_looked_up_for_clients_that_are_gone() {
        let profiler = Profiler::builder().start().expect("started");
        let (entered, _) = stop_at_names(&profiler);
        let gone = profiler.start().expect("captures").finish_while(|| false);
        assert_eq!(gone.expect_err("nobody is there").kind(), ErrorKind::Cancelled);
        assert_eq!(entered.try_recv(), Err(mpsc::TryRecvError::Empty));
        assert_eq!(served_and_cancelled(&profiler), (0, 1));
    }

    #[test]
    fn who_goes_away_while_names_are_looked_up_was_not_served() {
        let profiler = Profiler::builder().start().expect("started");
        let (entered, leave) = stop_at_names(&profiler);
        let request = profiler.cpu(Duration::from_millis(10));
        let (done, outcome) = mpsc::channel();
        let capture = move |cancel: &std::sync::Arc<Cancel>| {
            let outcome = request.run_unless(cancel).map(drop).map_err(|error| error.kind());
            done.send(outcome).unwrap_or_default();
        };
        let task = background::spawn("t", capture).expect("a thread");
        entered.recv_timeout(DEADLINE).expect("names are looked up");
        drop(task);
        drop(leave);
        assert_eq!(outcome.recv_timeout(DEADLINE), Ok(Err(ErrorKind::Cancelled)));
        assert_eq!(served_and_cancelled(&profiler), (0, 1));
        // A client that stays is served.
        profiler.cpu(Duration::from_millis(10)).run().expect("a profile");
        assert_eq!(served_and_cancelled(&profiler), (1, 1));
    }

    #[test]
    fn no_request_waits_while_the_past_gets_its_names() {
        let profiler = Profiler::builder().continuous(Continuous::default()).start().expect("started");
        let (entered, leave) = stop_at_names(&profiler);
        std::thread::scope(|scope| {
            let last = scope.spawn(|| profiler.last(DEADLINE));
            entered.recv_timeout(DEADLINE).expect("names are looked up");
            let (done, is_done) = mpsc::channel();
            let other = profiler.clone();
            // On another thread, which may block forever, so that this one can report it.
            std::thread::spawn(move || {
                other.metrics();
                done.send("metrics").unwrap_or_default();
                let (recent, _) = other.shared.recent.as_ref().expect("chosen");
                recent.last(DEADLINE);
                done.send("the past itself").unwrap_or_default();
                let raw = other.cpu(Duration::from_millis(10)).symbolize(false);
                raw.run().expect("captured");
                done.send("another capture").unwrap_or_default();
            });
            for expected in ["metrics", "the past itself", "another capture"] {
                assert_eq!(is_done.recv_timeout(DEADLINE), Ok(expected));
            }
            assert!(!last.is_finished(), "it is still at it");
            drop(leave);
            last.join().expect("no panic").expect("a profile");
        });
    }
}
