//! The table of endpoints. Each endpoint is one entry in it: routing and the page of links follow from the table, and
//! a test compares the documentation with it.

use std::time::Duration;

use flamelet_capture::profile::HeapView;
use http::StatusCode;
use http::request::Parts;

use super::answer::Refusal;
use super::incoming::Incoming;
use super::plan::{Capture, EmptyProfile, Plan};
#[cfg(feature = "history")]
use super::querier;
use super::query::UrlQuery;
use super::rules::Rules;
use super::{cpu, empty, heap, range, symbol, waits};

/// An endpoint: a path, and how to answer requests for it.
pub(super) struct Endpoint {
    /// The path, below the prefix of the handler.
    pub(super) path: &'static str,
    pub(super) methods: &'static str,
    /// How the page of links shows it; `None` if a person has no use for the link.
    pub(super) link: Option<PageLink>,
    /// Reads a request: checks its parameters against the caps, and returns what to do. Starts nothing.
    pub(super) plan: fn(&Incoming<'_>) -> Result<Plan, Refusal>,
}

/// A line of the page at `/debug/pprof/`.
pub(super) struct PageLink {
    /// The query of the link, which follows the endpoint's name.
    pub(super) query: &'static str,
    pub(super) text: &'static str,
}

/// An endpoint of Go's family that the page of links shows: its name, the query of the link, what it answers, and its plan:
/// a view of the heap, of what was waited for, or any other.
macro_rules! linked {
    ($name:literal, $query:literal, $text:literal, view $view:ident) => {
        linked!($name, $query, $text, |request| heap::plan(request, HeapView::$view))
    };
    ($name:literal, $query:literal, $text:literal, waits $kind:ident) => {
        linked!($name, $query, $text, |request| waits::plan(request, EmptyProfile::$kind))
    };
    ($name:literal, $query:literal, $text:literal, $plan:expr) => {
        Endpoint {
            link: Some(PageLink { query: $query, text: concat!($name, ": ", $text) }),
            ..Endpoint::hidden(concat!("/debug/pprof/", $name), $plan)
        }
    };
}

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint::hidden("/debug/pprof", |_| Ok(Plan::Moved("pprof/"))),
    Endpoint::hidden("/debug/pprof/", |request| Ok(Plan::Page { address: request.shown_address() })),
    Endpoint::hidden("/debug/pprof/view", |_| Ok(Plan::Moved("view/"))),
    linked!("profile", "?seconds=10", "CPU time over the next ten seconds", cpu::plan),
    linked!("heap", "", "memory in use, by allocating function", view InUse),
    linked!("allocs", "", "memory allocated since the start", view Allocated),
    linked!("growth", "?seconds=10", "memory that grows over the next ten seconds", view Growth),
    linked!("peak", "", "memory in use at the peak", view Peak),
    linked!("freed", "", "where memory is freed, and where it was allocated", view Freed),
    linked!("lifetime", "", "how long memory lived before it was freed", view Lifetime),
    linked!("temporary", "", "memory freed before its thread allocated anything else", view Temporary),
    linked!("threadcreate", "?debug=1", "the threads, by name", empty::plan_threads),
    linked!("requests", "", "what each route spends its time on", waits::plan_requests),
    linked!("goroutine", "?debug=2", "the tasks, by where they await", waits::plan_tasks),
    linked!("tasks", "", "the same as JSON, the longest wait first", waits::plan_task_json),
    linked!("await", "", "where tasks await, and how long", waits Await),
    linked!("block", "", "where threads wait for locks, and how long", waits Block),
    linked!("mutex", "", "who holds the locks that others wait for", waits Mutex),
    linked!("blocked", "", "which tasks hold up the executor", waits Blocked),
    linked!("wall", "?seconds=10", "where all threads are, running or not", waits::plan_wall),
    linked!("spans", "", "how long tracing's spans were busy and idle", waits::plan_spans),
    linked!("cmdline", "", "the command line", |_| Ok(Plan::Now(|_| symbol::cmdline()))),
    Endpoint { methods: "GET, HEAD, POST", ..Endpoint::hidden("/debug/pprof/symbol", symbol::plan) },
    Endpoint::hidden("/debug/pprof/trace", |_| Err(no_trace())),
    Endpoint::hidden("/pprof/profile/report", cpu::plan_report),
    Endpoint::hidden("/pprof/profile/flamegraph", cpu::plan_flamegraph),
    Endpoint::hidden("/pprof/heap/report", heap::plan_report),
    Endpoint::hidden("/pprof/heap/flamegraph", heap::plan_flamegraph),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/ProfileTypes"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/LabelNames"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/LabelValues"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/Series"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/SelectMergeStacktraces"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/SelectMergeSpanProfile"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/SelectMergeProfile"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/SelectSeries"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/SelectHeatmap"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/Diff"),
    #[cfg(feature = "history")]
    Endpoint::call("/querier.v1.QuerierService/GetProfileStats"),
    #[cfg(feature = "history")]
    Endpoint::hidden("/pyroscope/render", querier::plan_render),
    #[cfg(feature = "history")]
    Endpoint::hidden("/pyroscope/render-diff", querier::plan_render),
];

impl Endpoint {
    const fn hidden(path: &'static str, plan: fn(&Incoming<'_>) -> Result<Plan, Refusal>) -> Self {
        Self { path, methods: "GET, HEAD", link: None, plan }
    }

    /// A call of Pyroscope's query service.
    #[cfg(feature = "history")]
    const fn call(path: &'static str) -> Self {
        Self { methods: "POST", ..Self::hidden(path, querier::plan_call) }
    }

    /// Returns the endpoint at `path`, as if the handler were mounted at the root.
    pub(super) fn at(path: &str) -> Option<&'static Self> {
        ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
    }

    /// Returns the last part of the path, which is used in file names and titles.
    pub(super) fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn allows(&self, method: &str) -> bool {
        self.methods.split(", ").any(|allowed| allowed == method)
    }
}

/// Reads a request and returns what to do, or why it is refused. A pure function of the request and the service's
/// rules.
pub(super) fn plan(rules: &Rules<'_>, parts: &Parts, body: &[u8]) -> Result<Plan, Refusal> {
    let Some(endpoint) = endpoint_of(rules, parts) else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "Unknown profile"));
    };
    if !endpoint.allows(parts.method.as_str()) {
        return Err(Refusal::wrong_method(&parts.method, endpoint.methods));
    }
    let query = UrlQuery::parse(parts.uri.query().unwrap_or_default());
    let request = Incoming { name: endpoint.name(), rules, parts, query, body };
    let plan = (endpoint.plan)(&request)?;
    check_past(&request, &plan)?;
    check_timeout(rules, parts, &plan)?;
    Ok(plan)
}

/// Refuses a question about the past that would be answered with the present.
fn check_past(request: &Incoming<'_>, plan: &Plan) -> Result<(), Refusal> {
    let is_present = match plan {
        Plan::Profile(capture, _) => !matches!(capture, Capture::Range { .. } | Capture::Recent { .. }),
        Plan::Text(_) | Plan::Json(_) => true,
        #[cfg(target_os = "linux")]
        Plan::Task(_) => true,
        _ => request.name == "requests",
    };
    match range::asked(request).filter(|_| is_present) {
        None => Ok(()),
        Some(past) => Err(Refusal::bad_parameter(format!(
            "{past} is not supported for {}: a history has profile, heap, allocs, block, mutex, await and blocked",
            request.name
        ))),
    }
}

/// Refuses a capture that something in front of this service would cut off, where that is known.
fn check_timeout(rules: &Rules<'_>, parts: &Parts, plan: &Plan) -> Result<(), Refusal> {
    let Plan::Profile(capture, _) = plan else { return Ok(()) };
    let expected = parts.headers.get("x-envoy-expected-rq-timeout-ms");
    let expected = expected.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    // Envoy says 0 for none.
    let expected = expected.filter(|&millis| millis > 0).map(Duration::from_millis);
    let Some(timeout) = rules.timeout.into_iter().chain(expected).min() else { return Ok(()) };
    let seconds = capture.seconds();
    if Duration::from_secs(seconds) < timeout {
        return Ok(());
    }
    Err(Refusal::bad_parameter(format!(
        "a capture of {seconds} s would be cut off: requests to this service end after {} s; ask for less with \
         `seconds`, or merge the routes outside the timeout layer",
        timeout.as_secs_f64()
    )))
}

/// Returns the endpoint that a request names. The viewer's exists only if there is a viewer.
pub(super) fn endpoint_of(rules: &Rules<'_>, parts: &Parts) -> Option<&'static Endpoint> {
    let endpoint = Endpoint::at(parts.uri.path().strip_prefix(rules.prefix)?)?;
    (endpoint.name() != "view" || rules.has_viewer).then_some(endpoint)
}

/// Returns the paths outside Go's `/debug/pprof`.
#[cfg(feature = "axum")]
pub(crate) fn beside_go() -> impl Iterator<Item = &'static str> {
    ENDPOINTS.iter().map(|endpoint| endpoint.path).filter(|path| !path.starts_with("/debug/pprof"))
}

fn no_trace() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "Rust services have no execution trace: ask for /debug/pprof/profile, \
         whose samples carry their time and thread",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_and_nothing_else() {
        for known in ["/debug/pprof/profile", "/debug/pprof/", "/debug/pprof", "/pprof/heap/flamegraph"] {
            assert_eq!(Endpoint::at(known).map(|endpoint| endpoint.path), Some(known));
        }
        for unknown in ["/", "/debug/pprof/profile/", "/debug/pprof/nonsense", "/pprof/profile", "/pprof"] {
            assert!(Endpoint::at(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn every_endpoint_is_in_the_table_of_the_documents_and_no_path_is_there_twice() {
        let table: String = include_str!("mod.rs").lines().filter(|line| line.starts_with("//! |")).collect();
        for (index, endpoint) in ENDPOINTS.iter().enumerate() {
            let is_there = [endpoint.path, endpoint.name()]
                .iter()
                .any(|name| ["`", "?", "/`"].iter().any(|end| table.contains(&format!("`{name}{end}"))));
            assert!(is_there, "{} is missing in the table of http/mod.rs", endpoint.path);
            assert_eq!(ENDPOINTS.iter().position(|other| other.path == endpoint.path), Some(index));
        }
    }

    #[cfg(all(feature = "history", target_os = "linux"))]
    #[test]
    fn no_endpoint_answers_a_question_about_the_past_with_the_present() {
        let profiler = crate::Profiler::builder().start().expect("started");
        // Everything that there may be in a service.
        let rules = || Rules {
            history: Ok(()),
            heap: Ok(()),
            locks: Ok(()),
            has_tasks: true,
            has_spans: true,
            ..Rules::of(&profiler, "", true)
        };
        let mut ranges = Vec::new();
        for endpoint in ENDPOINTS {
            let is_query = endpoint.path.contains("QuerierService") || endpoint.path.contains("/pyroscope/");
            // They have nothing to do with time.
            let is_timeless = ["", "pprof", "view", "cmdline", "symbol", "trace"].contains(&endpoint.name());
            if is_query || is_timeless {
                continue;
            }
            for query in ["from=-1h", "to=-1h", "from=-1h&debug=2", "last=60"] {
                let uri = format!("{}?{query}", endpoint.path);
                let (parts, ()) = http::Request::get(uri).body(()).expect("a request").into_parts();
                match plan(&rules(), &parts, b"") {
                    Ok(Plan::Profile(Capture::Range { kind, .. }, _)) => ranges.push((endpoint.path, kind)),
                    Ok(other) => panic!("{}?{query}: {other:?}", endpoint.path),
                    Err(refusal) => {
                        assert_eq!(refusal.status, StatusCode::BAD_REQUEST, "{}?{query}", endpoint.path);
                    }
                }
            }
        }
        ranges.dedup();
        assert_eq!(
            ranges,
            [
                ("/debug/pprof/profile", "cpu"),
                ("/debug/pprof/heap", "heap"),
                ("/debug/pprof/allocs", "allocs"),
                ("/debug/pprof/await", "await"),
                ("/debug/pprof/block", "block"),
                ("/debug/pprof/mutex", "mutex"),
                ("/debug/pprof/blocked", "blocked"),
                ("/pprof/profile/report", "cpu"),
                ("/pprof/profile/flamegraph", "cpu"),
                ("/pprof/heap/report", "heap"),
                ("/pprof/heap/flamegraph", "heap"),
            ]
        );
    }

    #[test]
    fn what_a_person_can_look_at_is_linked_by_the_page() {
        for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.path.starts_with("/debug/pprof/")) {
            let is_for_programs = ["", "view", "symbol", "trace"].contains(&endpoint.name());
            assert_eq!(endpoint.link.is_none(), is_for_programs, "{}", endpoint.path);
        }
    }
}
