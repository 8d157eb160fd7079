//! CPU over HTTP.

use http::HeaderMap;

use super::answer::Refusal;
use super::asked::{Asked, Wanted};
use super::delivery::{Delivery, Form};
use super::query::Query;
use super::route;
use super::rules::Rules;

/// What is taken for a parameter that the request does not have.
#[derive(Debug, PartialEq, Eq)]
struct Defaults {
    seconds: u64,
    frequency: u32,
}

impl Defaults {
    const OF_THE_FAMILY: Self = Self { seconds: 10, frequency: 200 };

    /// Go's duration, and the frequency that the profiler was built with (99 unless set).
    fn of_go(rules: &Rules<'_>) -> Self {
        Self { seconds: 30, frequency: rules.frequency }
    }
}

/// `/debug/pprof/profile`.
pub(super) fn read(rules: &Rules<'_>, query: &Query, headers: &HeaderMap) -> Result<Asked, Refusal> {
    let form = Form::negotiate(query, headers)?;
    read_with(rules, query, form, &Defaults::of_go(rules))
}

/// `/pprof/profile/report` and `/pprof/profile/flamegraph`.
pub(super) fn read_family(rules: &Rules<'_>, query: &Query, form: route::Form) -> Result<Asked, Refusal> {
    let form = Form::of_family(rules, query, form)?;
    read_with(rules, query, form, &Defaults::OF_THE_FAMILY)
}

fn read_with(rules: &Rules<'_>, query: &Query, form: Form, defaults: &Defaults) -> Result<Asked, Refusal> {
    rules.cpu.map_err(Refusal::forbidden)?;
    let limits = rules.limits;
    let (max_seconds, max_frequency) = (limits.max_duration.as_secs(), u64::from(limits.max_frequency));
    let seconds = query.number("seconds", 1..=max_seconds, " (the cap of this service)")?;
    let frequency = query.number("frequency", 1..=max_frequency, " Hz (the cap of this service)")?;
    let delivery = Delivery::titled(rules, "profile", "CPU", form);
    if query.first("last").is_some() {
        for (name, is_there) in [("seconds", seconds.is_some()), ("frequency", frequency.is_some())] {
            if is_there {
                return Err(Refusal::bad_parameter(format!("{name} and last params are incompatible")));
            }
        }
        return read_recent(rules, query, delivery);
    }
    let seconds = seconds.unwrap_or(defaults.seconds).min(max_seconds);
    let frequency = frequency.unwrap_or(u64::from(defaults.frequency)).min(max_frequency);
    let frequency = u32::try_from(frequency).unwrap_or(limits.max_frequency);
    Ok(Asked::Profile(Wanted::Cpu { seconds, frequency }, delivery))
}

/// `?last=60`.
fn read_recent(rules: &Rules<'_>, query: &Query, delivery: Delivery) -> Result<Asked, Refusal> {
    let most = rules.past.map_err(Refusal::forbidden)?.as_secs().max(1);
    let seconds = query.number("last", 1..=most, " (this service remembers no more)")?.unwrap_or(most);
    Ok(Asked::Profile(Wanted::Recent { seconds }, delivery))
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
        assert_eq!(Defaults::OF_THE_FAMILY, Defaults { seconds: 10, frequency: 200 });
        let limits = profiler.limits();
        assert_eq!(
            (limits.max_duration.as_secs(), limits.max_frequency, limits.max_captures),
            (600, 1000, 16)
        );
    }
}
