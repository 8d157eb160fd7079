//! CPU over HTTP.

use http::HeaderMap;

use super::answer::Refusal;
use super::plan::{Form, Plan};
use super::query::Query;
use super::route;
use crate::Profiler;

/// `/debug/pprof/profile`.
pub(super) fn plan(profiler: &Profiler, query: &Query, headers: &HeaderMap) -> Result<Plan, Refusal> {
    let form = Form::negotiate(query, headers)?;
    enabled::plan(profiler, query, form, &enabled::Defaults::of_go(profiler))
}

/// `/pprof/profile/report` and `/pprof/profile/flamegraph`.
pub(super) fn family(profiler: &Profiler, query: &Query, form: route::Form) -> Result<Plan, Refusal> {
    let form = match form {
        route::Form::Report => Form::Pprof,
        route::Form::Flamegraph => Form::flamegraph(query, profiler.limits().max_image_width)?,
    };
    enabled::plan(profiler, query, form, &enabled::Defaults::OF_THE_FAMILY)
}

#[cfg(feature = "cpu")]
mod enabled {
    use std::time::Duration;

    use super::super::plan::Delivery;
    use super::*;

    /// What is taken for a parameter that the request does not have.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Defaults {
        pub(super) seconds: u64,
        pub(super) frequency: u32,
    }

    impl Defaults {
        pub(super) const OF_THE_FAMILY: Self = Self { seconds: 10, frequency: 200 };

        /// Go's duration, and the frequency that the profiler was built with (99 unless set).
        pub(super) fn of_go(profiler: &Profiler) -> Self {
            Self { seconds: 30, frequency: profiler.shared().settings.cpu.frequency }
        }
    }

    pub(super) fn plan(
        profiler: &Profiler,
        query: &Query,
        form: Form,
        defaults: &Defaults,
    ) -> Result<Plan, Refusal> {
        let limits = profiler.limits();
        let (max_seconds, max_frequency) = (limits.max_duration.as_secs(), u64::from(limits.max_frequency));
        let seconds = query.number("seconds", 1..=max_seconds, " (the cap of this service)")?;
        let frequency = query.number("frequency", 1..=max_frequency, " Hz (the cap of this service)")?;
        let delivery =
            Delivery { name: "profile".into(), title: format!("{} · CPU", profiler.name()), form };
        if query.first("last").is_some() {
            for (name, is_there) in [("seconds", seconds.is_some()), ("frequency", frequency.is_some())] {
                if is_there {
                    return Err(Refusal::bad_parameter(format!("{name} and last params are incompatible")));
                }
            }
            return recent::plan(profiler, query, delivery);
        }
        let seconds = seconds.unwrap_or(defaults.seconds).min(max_seconds);
        let frequency = frequency.unwrap_or(u64::from(defaults.frequency)).min(max_frequency);
        let request = profiler.cpu(Duration::from_secs(seconds));
        let request = request.frequency(u32::try_from(frequency).unwrap_or(limits.max_frequency));
        Ok(Plan::deliver(delivery, move |cancel| Ok(request.sharing_memory().run_unless(cancel)?)))
    }

    #[cfg(feature = "continuous")]
    mod recent {
        use super::*;

        pub(super) fn plan(profiler: &Profiler, query: &Query, delivery: Delivery) -> Result<Plan, Refusal> {
            let Some(remembered) = profiler.remembered() else {
                return Err(Refusal::forbidden(
                    "continuous sampling is not enabled in this service, so there is no `last`; \
                     ask with `seconds` instead",
                ));
            };
            let most = remembered.as_secs().max(1);
            let last = query.number("last", 1..=most, " (this service remembers no more)")?.unwrap_or(most);
            let profiler = profiler.clone();
            Ok(Plan::deliver(delivery, move |_| Ok(profiler.last(Duration::from_secs(last))?)))
        }
    }

    #[cfg(not(feature = "continuous"))]
    mod recent {
        use super::*;

        pub(super) fn plan(_: &Profiler, _: &Query, _: Delivery) -> Result<Plan, Refusal> {
            Err(Refusal::forbidden(
                "continuous sampling is not compiled into this service (feature `continuous` of flamelet), \
                 so there is no `last`; ask with `seconds` instead",
            ))
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::enabled::Defaults;
    use crate::Profiler;

    #[test]
    fn without_parameters_it_is_what_the_guides_say() {
        let profiler = Profiler::builder().start().expect("started");
        assert_eq!(Defaults::of_go(&profiler), Defaults { seconds: 30, frequency: 99 });
        assert_eq!(Defaults::OF_THE_FAMILY, Defaults { seconds: 10, frequency: 200 });
        let limits = profiler.limits();
        assert_eq!(
            (limits.max_duration.as_secs(), limits.max_frequency, limits.max_captures),
            (600, 1000, 16)
        );
    }
}

#[cfg(not(feature = "cpu"))]
mod enabled {
    use super::*;

    pub(super) struct Defaults;

    impl Defaults {
        pub(super) const OF_THE_FAMILY: Self = Self;

        pub(super) fn of_go(_: &Profiler) -> Self {
            Self
        }
    }

    pub(super) fn plan(_: &Profiler, _: &Query, _: Form, _: &Defaults) -> Result<Plan, Refusal> {
        Err(Refusal::forbidden("CPU profiling is not compiled into this service (feature `cpu` of flamelet)"))
    }
}
