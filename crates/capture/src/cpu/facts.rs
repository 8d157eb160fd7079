//! What is known about a capture besides its samples, and how good that makes it.

use super::aggregate::Aggregate;
use flamelet_profile::Quality;

/// Remarks about shares of fewer samples than this would be noise.
const FEWEST_SAMPLES: u64 = 20;

/// What is known about a capture besides its samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Start in nanoseconds since 1970.
    pub(crate) start_unix: i64,
    /// Start on the monotonic clock, which samples carry.
    pub(crate) start: u64,
    /// End on the monotonic clock.
    pub(crate) end: u64,
    pub(crate) engine: &'static str,
    pub(crate) asked_frequency: u32,
    /// CPU time of the process during the capture, without the profiler's own thread.
    pub(crate) process_cpu_nanos: u64,
    /// CPU time of the profiler itself during the capture.
    pub(crate) own_cpu_nanos: u64,
    /// Samples that were due and found no free slot.
    pub(crate) refused: u64,
    /// Samples that were not each taken at their own time: one stack stands for many of them.
    pub(crate) coarse: u64,
    /// How many bytes the samples may take.
    pub(crate) memory_budget: usize,
    /// Remarks, a line each.
    pub(crate) comments: Vec<String>,
}

impl Facts {
    /// The nanoseconds between two samples of a thread.
    pub(crate) fn period(&self) -> i64 {
        1_000_000_000 / i64::from(self.asked_frequency.max(1))
    }

    /// Returns the quality of the samples in `parts` (without the engine's name), and remarks on it.
    pub(crate) fn judge(&self, parts: &[&Aggregate]) -> (Quality, Vec<String>) {
        let sum = |of: fn(&Aggregate) -> u64| parts.iter().map(|part| of(part)).sum::<u64>();
        let (periods, unfit) = (sum(|part| part.periods), sum(|part| part.lost));
        let samples = sum(|part| part.observations);
        let lost = unfit + self.refused;
        let unseen = self.unseen(periods + lost, parts);
        let achieved = achieved_millihertz(samples, self.process_cpu_nanos);
        let coarse = coarse_remark(self.coarse, periods + lost);
        let remarks = [
            missing_remark(unseen, periods + lost + unseen),
            coarse.or_else(|| self.rate_remark(achieved, samples, periods)),
            self.unfit_remark(unfit),
            self.timeline_remark(parts),
        ];
        let quality = Quality {
            asked_millihertz: u64::from(self.asked_frequency) * 1000,
            achieved_millihertz: achieved,
            samples,
            lost: in_observations(lost + unseen, samples, periods),
            truncated: sum(|part| part.truncated),
            own_cpu_nanos: self.own_cpu_nanos,
            ..Quality::default()
        };
        (quality, remarks.into_iter().flatten().collect())
    }

    /// Returns how many samples the CPU time calls for that were not taken, beyond the one that every thread may owe.
    fn unseen(&self, accounted: u64, parts: &[&Aggregate]) -> u64 {
        let due = self.process_cpu_nanos / self.period().unsigned_abs().max(1);
        let threads: usize = parts.iter().map(|part| part.threads.len()).max().unwrap_or(0);
        due.saturating_sub(accounted + threads as u64 + 1)
    }

    /// Returns a remark that the kernel checks timers less often than asked, and what samples more often.
    fn rate_remark(&self, achieved: u64, samples: u64, periods: u64) -> Option<String> {
        // Two periods or more in each observation: not just a late tick now and then.
        let is_slow = samples >= FEWEST_SAMPLES && periods >= 2 * samples;
        let achieved = achieved / 1000;
        (is_slow && self.engine == "timer").then(|| {
            format!(
                "{achieved} samples per second of CPU time instead of {}: the kernel checks timers once per tick, so each \
                 observation stands for several periods. The engine `perf` can sample as often as asked",
                self.asked_frequency
            )
        })
    }

    fn unfit_remark(&self, samples: u64) -> Option<String> {
        let budget = self.memory_budget;
        (samples > 0).then(|| {
            format!(
                "{samples} samples did not fit into the memory budget of {budget} bytes: stacks that were first seen \
                 when it was full are missing"
            )
        })
    }

    fn timeline_remark(&self, parts: &[&Aggregate]) -> Option<String> {
        let budget = self.memory_budget;
        let is_missing = parts.iter().any(|part| part.has_no_timeline);
        is_missing.then(|| format!("the timeline did not fit into the memory budget of {budget} bytes"))
    }
}

/// Returns a remark that says why samples are missing, if many are.
fn missing_remark(unseen: u64, due: u64) -> Option<String> {
    const WORTH_A_WORD: u64 = 5;
    let percent = unseen * 100 / due.max(1);
    (percent >= WORTH_A_WORD && due >= FEWEST_SAMPLES).then(|| {
        format!(
            "{percent} % of the CPU time has no sample: threads ended within a few milliseconds, the machine was so busy \
             that the kernel's ticks landed on other processes, or threads block {} ({})",
            signal_name(),
            blocking_threads()
        )
    })
}

/// Returns a remark that shares are uncertain, if many samples are coarse.
fn coarse_remark(coarse: u64, samples: u64) -> Option<String> {
    const WORTH_A_WORD: u64 = 10;
    let percent = coarse * 100 / samples.max(1);
    (percent >= WORTH_A_WORD && samples >= FEWEST_SAMPLES).then(|| {
        format!(
            "{percent} % of the CPU time rests on few samples, each of which stands for many: the machine was so busy \
             that the kernel's ticks landed on other processes, or threads were new; shares of functions are less \
             certain (the engine `perf` does not wait for ticks)"
        )
    })
}

/// The names of the threads that block the signal, as far as there is room for them.
#[cfg(target_os = "linux")]
fn blocking_threads() -> String {
    const ROOM_FOR: usize = 4;
    let names = crate::threads::names_of_blocking_threads(super::handler::signal());
    match names.len() {
        0 => "none at the moment".to_owned(),
        count if count <= ROOM_FOR => format!("at the moment: {}", names.join(", ")),
        count => format!("at the moment: {} and {} more", names[..ROOM_FOR].join(", "), count - ROOM_FOR),
    }
}

#[cfg(target_os = "linux")]
fn signal_name() -> &'static str {
    super::handler::choice().name()
}

#[cfg(not(target_os = "linux"))]
fn blocking_threads() -> String {
    "none at the moment".to_owned()
}

#[cfg(not(target_os = "linux"))]
fn signal_name() -> &'static str {
    "signals"
}

/// Returns how many observations `periods` missing sampling periods would have been, as those that were taken go.
fn in_observations(missing: u64, samples: u64, periods: u64) -> u64 {
    match periods {
        0 => missing,
        _ => (u128::from(missing) * u128::from(samples)).div_ceil(u128::from(periods)) as u64,
    }
}

/// Observations per second of CPU time.
fn achieved_millihertz(samples: u64, cpu_nanos: u64) -> u64 {
    let millihertz = u128::from(samples) * 1_000_000_000_000 / u128::from(cpu_nanos.max(1));
    u64::try_from(millihertz).unwrap_or(u64::MAX)
}
