//! flamelet, as a service uses it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use flamelet::Profiler;
use flamelet_capture::cpu::Status;
use flamelet_unwind::{Image, Modules};

use crate::{DEPTH, Finished, clock};

/// The unwind tables of this program and its libraries: their share of the text, and what it takes to make them.
pub(crate) fn tables() -> String {
    const ROUNDS: usize = 9;
    let modules = Modules::of_this_process().expect("this process can be read");
    let is_file = |name: &&str| name.starts_with('/');
    let files: BTreeSet<&str> = modules.iter().map(|module| &*module.name).filter(is_file).collect();
    let (mut text, mut table, mut seconds) = (0, 0, 0.0);
    for file in files {
        let mut best = f64::INFINITY;
        let mut made = None;
        for _ in 0..ROUNDS {
            let start = clock::thread();
            made = Image::open(Path::new(file)).ok();
            best = best.min((clock::thread() - start).as_secs_f64());
        }
        let image = made.expect("its own files can be read");
        text += image.text_size();
        table += image.table().map_or(0, |table| table.byte_size());
        seconds += best;
    }
    let megabytes = text as f64 / 1e6;
    format!(
        "{{\"table_share\":{:.4},\"table_ms\":{:.4}}}",
        table as f64 / text as f64,
        seconds * 1e3 / megabytes
    )
}

/// A running capture.
pub(crate) struct Capture {
    capture: flamelet::CpuCapture,
    before: Status,
    _profiler: Profiler,
}

impl Capture {
    /// Starts everything, symbolizer included.
    pub(crate) fn start(hertz: u32) -> Self {
        let before = flamelet_capture::cpu::status();
        let builder = Profiler::builder().name("bench").frequency(hertz).overhead_budget(None);
        let profiler = builder.start().expect("flamelet starts");
        Self { capture: profiler.start().expect("a capture starts"), before, _profiler: profiler }
    }

    /// Hardly ever samples by itself.
    pub(crate) fn start_quiet() -> Self {
        Self::start(1)
    }

    /// To the encoded profile, with names.
    pub(crate) fn finish(self) -> Finished {
        let profile = self.capture.finish();
        let signals = flamelet_capture::cpu::status().samples - self.before.samples;
        let bytes = flamelet_profile::pprof::encode(&profile).len();
        let (mut samples, mut whole) = (0, 0);
        for sample in profile.samples() {
            let count = sample.values[0] as u64;
            samples += count;
            whole += if profile.stack(sample.stack).len() >= DEPTH as usize { count } else { 0 };
        }
        Finished { bytes, reported: Duration::from_nanos(profile.total(1) as u64), samples, whole, signals }
    }

    /// Ends it without a report.
    pub(crate) fn discard(self) {
        let lost = flamelet_capture::cpu::status().lost - self.before.lost;
        if lost > 0 {
            eprintln!("bench-cpu: flamelet lost {lost} samples");
        }
    }
}
