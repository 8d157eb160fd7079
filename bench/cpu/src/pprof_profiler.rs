//! pprof-rs, as its README shows it; no blocklist, so that nothing is thrown away.

use std::time::Duration;

use pprof::ProfilerGuard;
use pprof::protos::Message;

use crate::{DEPTH, Finished};

/// It makes no tables.
pub(crate) fn tables() -> &'static str {
    "{}"
}

/// A running capture.
pub(crate) struct Capture {
    guard: ProfilerGuard<'static>,
    hertz: u32,
}

impl Capture {
    /// Starts the timer.
    pub(crate) fn start(hertz: u32) -> Self {
        let frequency = i32::try_from(hertz).expect("a frequency");
        let guard = pprof::ProfilerGuardBuilder::default().frequency(frequency).build();
        Self { guard: guard.expect("pprof-rs starts"), hertz }
    }

    /// Hardly ever samples by itself.
    pub(crate) fn start_quiet() -> Self {
        Self::start(1)
    }

    /// To the encoded profile.
    pub(crate) fn finish(self) -> Finished {
        let report = self.guard.report().build().expect("a report");
        let encoded = report.pprof().expect("a profile").write_to_bytes().expect("encoded");
        let (mut samples, mut whole) = (0, 0);
        for (frames, count) in &report.data {
            let count = u64::try_from(*count).unwrap_or(0);
            samples += count;
            whole += if frames.frames.len() >= DEPTH as usize { count } else { 0 };
        }
        let reported = Duration::from_secs_f64(samples as f64 / f64::from(self.hertz));
        Finished { bytes: encoded.len(), reported, samples, whole, signals: samples }
    }

    /// Ends it without a report.
    pub(crate) fn discard(self) {}
}
