//! The endpoints for CPU profiles.

use super::answer::Refusal;
use super::delivery::{Delivery, Form};
use super::incoming::Incoming;
use super::plan::{Capture, Plan};
use super::range;
use super::rules::Rules;

/// The defaults of parameters that a request does not set.
#[derive(Debug, PartialEq, Eq)]
struct Defaults {
    seconds: u64,
    frequency: u32,
}

impl Defaults {
    const OF_PPROF_PATHS: Self = Self { seconds: 10, frequency: 200 };

    /// Go's default duration, and the frequency that the profiler was built with (99 unless set).
    fn of_go(rules: &Rules<'_>) -> Self {
        Self { seconds: 30, frequency: rules.frequency }
    }
}

/// `/debug/pprof/profile`.
pub(super) fn plan(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan_with(request, Form::negotiate(request)?, &Defaults::of_go(request.rules))
}

/// `/pprof/profile/report`.
pub(super) fn plan_report(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan_with(request, Form::Pprof, &Defaults::OF_PPROF_PATHS)
}

/// `/pprof/profile/flamegraph`.
pub(super) fn plan_flamegraph(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan_with(request, Form::picture(request)?, &Defaults::OF_PPROF_PATHS)
}

fn plan_with(request: &Incoming<'_>, form: Form, defaults: &Defaults) -> Result<Plan, Refusal> {
    let Incoming { rules, query, .. } = request;
    rules.cpu.map_err(Refusal::forbidden)?;
    let limits = rules.limits;
    let (max_seconds, max_frequency) = (limits.max_duration.as_secs(), u64::from(limits.max_frequency));
    let seconds = query.number("seconds", 1..=max_seconds, " (the limit of this service)")?;
    let frequency = query.number("frequency", 1..=max_frequency, " Hz (the limit of this service)")?;
    let delivery = Delivery::titled(rules, "profile", "CPU", form);
    if let Some(past) = range::asked(request) {
        range::refuse_with(request, past, &["seconds", "frequency"])?;
        // What was sampled continuously is finer than the windows of a history.
        if past == "last" && (rules.past.is_ok() || rules.history.is_err()) {
            return plan_recent(request, delivery);
        }
        return range::plan(request, "cpu", delivery);
    }
    let seconds = seconds.unwrap_or(defaults.seconds).min(max_seconds);
    let frequency = frequency.unwrap_or(u64::from(defaults.frequency)).min(max_frequency);
    let frequency = u32::try_from(frequency).unwrap_or(limits.max_frequency);
    Ok(Plan::Profile(Capture::Cpu { seconds, frequency }, delivery))
}

/// `?last=60`.
fn plan_recent(request: &Incoming<'_>, delivery: Delivery) -> Result<Plan, Refusal> {
    let most = request.rules.past.map_err(Refusal::forbidden)?.as_secs().max(1);
    let seconds = request.query.number("last", 1..=most, " (this service keeps no more)")?;
    Ok(Plan::Profile(Capture::Recent { seconds: seconds.unwrap_or(most) }, delivery))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::Profiler;

    #[test]
    fn without_parameters_it_is_what_the_guides_say() {
        let profiler = Profiler::builder().start().expect("started");
        let rules = Rules::of(&profiler, "", false);
        assert_eq!(Defaults::of_go(&rules), Defaults { seconds: 30, frequency: 99 });
        assert_eq!(Defaults::OF_PPROF_PATHS, Defaults { seconds: 10, frequency: 200 });
        let limits = profiler.limits();
        assert_eq!(
            (limits.max_duration.as_secs(), limits.max_frequency, limits.max_captures),
            (600, 1000, 16)
        );
    }
}
