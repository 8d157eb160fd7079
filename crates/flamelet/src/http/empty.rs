//! Go's profiles that flamelet does not capture: valid but empty, with Go's sample types, so that scrapers that ask
//! for them by default report no error.

use flamelet_capture::profile::{Profile, ProfileBuilder, moment};

use super::answer::Refusal;
use super::delivery::{Delivery, Form};
use super::incoming::Incoming;
use super::plan::{Capture, EmptyProfile, Plan};

impl EmptyProfile {
    fn sample_types(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Allocs => &[
                ("alloc_objects", "count"),
                ("alloc_space", "bytes"),
                ("inuse_objects", "count"),
                ("inuse_space", "bytes"),
            ],
            Self::Blocked => &[("polls", "count"), ("delay", "nanoseconds")],
            Self::Await => &[("awaits", "count"), ("delay", "nanoseconds")],
            Self::Block | Self::Mutex => &[("contentions", "count"), ("delay", "nanoseconds")],
            Self::Goroutine => &[("goroutine", "count")],
            Self::Spans => &[("spans", "count"), ("busy", "nanoseconds"), ("idle", "nanoseconds")],
            Self::Threadcreate => &[("threadcreate", "count")],
            Self::Wall => &[("samples", "count"), ("wall", "nanoseconds")],
        }
    }

    fn period_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Allocs => ("space", "bytes"),
            Self::Wall => ("wall", "nanoseconds"),
            _ => self.sample_types()[0],
        }
    }

    /// Returns why the profile is empty.
    const fn remark(self) -> &'static str {
        match self {
            Self::Allocs => "heap profiling is not enabled in this service",
            Self::Goroutine | Self::Await | Self::Blocked => {
                "there are no tasks yet: flamelet::task, flamelet::spawn and flamelet::axum::layer create them"
            }
            Self::Spans => {
                "there are no spans yet: they need the feature `tracing` and `flamelet::spans::layer()` in the subscriber"
            }
            Self::Threadcreate => "the threads of this process, by name",
            Self::Block | Self::Mutex => {
                "lock profiling is not enabled in this service: it needs `flamelet::lock_profiling!()` in the program"
            }
            Self::Wall => "not captured inside the process; use `flamelet record --off-cpu`",
        }
    }
}

/// Returns a plan that delivers a profile of `kind` in the form that the request selects.
pub(super) fn plan(request: &Incoming<'_>, kind: EmptyProfile) -> Result<Plan, Refusal> {
    let form = Form::negotiate(request)?;
    Ok(Plan::Profile(Capture::Empty(kind), Delivery::of(request, form, request.delta_seconds()?)))
}

/// `/debug/pprof/threadcreate`.
pub(super) fn plan_threads(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    plan(request, EmptyProfile::Threadcreate)
}

pub(super) fn profile(kind: EmptyProfile) -> Profile {
    let mut builder = ProfileBuilder::new(kind.sample_types());
    builder.comment(kind.remark());
    if kind == EmptyProfile::Threadcreate {
        add_threads(&mut builder);
    }
    let (period, unit) = kind.period_type();
    let period_type = builder.value_type(period, unit);
    let default =
        if kind == EmptyProfile::Allocs { builder.string("alloc_space") } else { Default::default() };
    let header = builder.header_mut();
    header.time_nanos = moment::now();
    header.period_type = Some(period_type);
    header.period = 1;
    header.default_sample_type = default;
    builder.finish()
}

/// Adds a row for each thread name, with the number of threads of that name.
fn add_threads(builder: &mut ProfileBuilder) {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let Ok(name) = std::fs::read_to_string(task.path().join("comm")) else { continue };
        let function = builder.named_function(name.trim_end(), "");
        let frame = builder.frame(function, 0);
        let stack = builder.stack(&[frame]);
        builder.merge_sample(stack, Default::default(), &[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_types_of_go() {
        let block = profile(EmptyProfile::Block);
        let kinds: Vec<&str> = block.sample_types().iter().map(|value| block.string(value.kind)).collect();
        assert_eq!(kinds, ["contentions", "delay"]);
        assert_eq!(block.sample_count(), 0);
        let allocs = profile(EmptyProfile::Allocs);
        assert_eq!(allocs.default_sample_index(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_are_counted_by_name() {
        assert!(profile(EmptyProfile::Threadcreate).total(0) >= 1);
    }
}
