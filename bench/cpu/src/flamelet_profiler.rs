//! flamelet, as a service uses it.

use std::time::Duration;

use flamelet::Profiler;
use flamelet_capture::cpu::Status;

use crate::{DEPTH, Finished};

/// A running capture.
pub(crate) struct Capture {
    capture: flamelet::CpuCapture,
    before: Status,
    _profiler: Profiler,
}

impl Capture {
    /// Starts everything, symbolizer included.
    pub(crate) fn start(hertz: u32) -> Self {
        Self::with(hertz, 2048)
    }

    /// Hardly ever samples by itself, and holds all the signals of a measurement.
    pub(crate) fn start_quiet() -> Self {
        Self::with(1, 1 << 16)
    }

    fn with(hertz: u32, buffered: usize) -> Self {
        let before = flamelet_capture::cpu::status();
        let builder = Profiler::builder().name("bench").frequency(hertz).buffered_samples(buffered);
        let profiler = builder.overhead_budget(None).start().expect("flamelet starts");
        Self { capture: profiler.start().expect("a capture starts"), before, _profiler: profiler }
    }

    /// To the encoded profile, with names.
    pub(crate) fn finish(self) -> Finished {
        let profile = self.capture.finish();
        let bytes = flamelet_profile::pprof::encode(&profile).len();
        let (mut samples, mut whole) = (0, 0);
        for sample in profile.samples() {
            let count = sample.values[0] as u64;
            samples += count;
            whole += if profile.stack(sample.stack).len() >= DEPTH as usize { count } else { 0 };
        }
        Finished { bytes, reported: Duration::from_nanos(profile.total(1) as u64), samples, whole }
    }

    /// Ends it without a report.
    pub(crate) fn discard(self) {
        let lost = flamelet_capture::cpu::status().lost - self.before.lost;
        if lost > 0 {
            eprintln!("bench-cpu: flamelet lost {lost} samples");
        }
    }
}
