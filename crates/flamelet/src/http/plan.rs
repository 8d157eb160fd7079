//! What to do for a request, as plain data: every parameter is checked and within the caps.

use flamelet_capture::profile::HeapView;

use super::answer::Answer;
use super::delivery::Delivery;
use crate::Profiler;
#[cfg(target_os = "linux")]
use crate::waits::WaitView;

/// What to do for a request.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Show the page with links; the client knows it by this address.
    Page { address: String },
    /// Redirect the client to the page with its trailing slash, without which its links would not work.
    Moved(&'static str),
    /// Answer at once, with this function.
    Now(fn(&Profiler) -> Answer),
    /// Answer with the text that this function makes, which takes a moment.
    Text(fn(&Profiler) -> String),
    /// Does the same with JSON.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is watched there"))]
    Json(fn(&Profiler) -> String),
    /// Answer with the task of this number as JSON.
    #[cfg(target_os = "linux")]
    Task(u64),
    /// Look up the names of these addresses.
    Names(Vec<u64>),
    /// Take a profile and deliver it.
    Profile(Capture, Delivery),
    /// Answer a query of Pyroscope's protocol from the history.
    #[cfg(feature = "history")]
    Query(PastQuestion),
}

/// A query of Pyroscope's protocol.
#[cfg(feature = "history")]
#[derive(Clone, Debug)]
pub(super) enum PastQuestion {
    /// A call of `querier.v1.QuerierService`.
    Call { method: &'static str, content_type: String, encoding: String, body: Vec<u8> },
    /// `/pyroscope/render`; `now` is in nanoseconds since 1970.
    Render { is_diff: bool, parameters: Vec<(String, String)>, now: i64 },
}

/// Where a profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// CPU time of the next seconds.
    Cpu { seconds: u64, frequency: u32 },
    /// CPU time of the last seconds.
    Recent { seconds: u64 },
    /// Windows of this kind between two moments in the past, in nanoseconds since 1970.
    Range { kind: &'static str, from: i64, to: i64 },
    /// The heap, or what changes in this many seconds.
    Heap { view: HeapView, seconds: Option<u64> },
    /// What grows, watched in this many windows if the request says so.
    Growth { seconds: u64, windows: Option<usize> },
    /// Waits, since the start or during this many seconds.
    #[cfg(target_os = "linux")]
    Waits { view: WaitView, seconds: Option<u64> },
    /// All threads during the next seconds.
    #[cfg(target_os = "linux")]
    Wall { seconds: u64, frequency: u32 },
    /// The live tasks.
    #[cfg(target_os = "linux")]
    Tasks,
    /// Spans, since the start or during this many seconds.
    #[cfg(all(feature = "tracing", target_os = "linux"))]
    Spans { seconds: Option<u64> },
    /// A profile that flamelet does not capture, or not in this service.
    Empty(EmptyProfile),
}

impl Capture {
    /// Returns for how many seconds it waits.
    pub(super) fn seconds(self) -> u64 {
        match self {
            Self::Cpu { seconds, .. } | Self::Growth { seconds, .. } => seconds,
            #[cfg(target_os = "linux")]
            Self::Wall { seconds, .. } => seconds,
            Self::Heap { seconds, .. } => seconds.unwrap_or(0),
            #[cfg(target_os = "linux")]
            Self::Waits { seconds, .. } => seconds.unwrap_or(0),
            #[cfg(all(feature = "tracing", target_os = "linux"))]
            Self::Spans { seconds } => seconds.unwrap_or(0),
            #[cfg(target_os = "linux")]
            Self::Tasks => 0,
            Self::Recent { .. } | Self::Range { .. } | Self::Empty(_) => 0,
        }
    }
}

/// A profile that Go has and this service does not capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyProfile {
    Allocs,
    Await,
    Block,
    Blocked,
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "captured there"))]
    Goroutine,
    Mutex,
    Spans,
    Threadcreate,
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "captured there"))]
    Wall,
}
