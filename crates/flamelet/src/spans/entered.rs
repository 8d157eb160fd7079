//! The spans that a thread is in.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use flamelet_capture::labels::{LabelSet, Scope};

use super::tree::SpanPath;

/// A span that this thread is in.
struct Entered {
    id: u64,
    /// `None` once it was left before the spans inside it, which should not happen.
    node: Option<Arc<SpanPath>>,
    /// When it became the innermost span; busy time is counted from there.
    since: Instant,
    _scope: Scope,
}

thread_local! {
    /// Outermost first.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Runs `change` on the spans of this thread; not while the thread ends, or from within itself.
fn with_spans(change: impl FnOnce(&mut Vec<Entered>)) {
    let _ = ENTERED.try_with(|spans| {
        if let Ok(mut spans) = spans.try_borrow_mut() {
            change(&mut spans);
        }
    });
}

/// Notes that the thread enters a span `now`, whose samples carry `labels`.
pub(super) fn enter(id: u64, node: Arc<SpanPath>, labels: &LabelSet, now: Instant) {
    with_spans(|spans| {
        count_innermost(spans, now);
        spans.push(Entered { id, node: Some(node), since: now, _scope: labels.enter() });
    });
}

/// Notes that the thread leaves a span `now`.
pub(super) fn exit(id: u64, now: Instant) {
    with_spans(|spans| {
        let Some(at) = spans.iter().rposition(|span| span.id == id && span.node.is_some()) else { return };
        count_innermost(spans, now);
        spans[at].node = None;
        // Scopes end in the reverse order of their beginning.
        while spans.pop_if(|span| span.node.is_none()).is_some() {}
        if let Some(innermost) = spans.last_mut() {
            innermost.since = now;
        }
    });
}

/// Counts the time until `now` for the innermost span.
fn count_innermost(spans: &mut [Entered], now: Instant) {
    if let Some(innermost) = spans.last_mut() {
        if let Some(node) = &innermost.node {
            node.sums.add_busy(nanos(innermost.since, now));
        }
        innermost.since = now;
    }
}

/// Returns the time between two moments.
pub(super) fn nanos(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}
