//! The layer for `tracing_subscriber`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flamelet_capture::labels::LabelSet;
use tracing_core::Subscriber;
use tracing_core::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::entered::{self, nanos};
use super::tree::{SpanPath, tree};
use crate::TraceIds;

/// A layer that puts spans into profiles, see the [module](super).
#[derive(Clone, Debug, Default)]
pub struct SpanLayer {
    trace_ids: Option<fn() -> Option<TraceIds>>,
}

/// Returns the layer; add it to a `tracing_subscriber::registry()`.
pub fn layer() -> SpanLayer {
    SpanLayer::default()
}

impl SpanLayer {
    /// Takes the ids of traces from `current`, which is called when a span is entered for the first time, after the layers
    /// that were added before this one.
    #[must_use]
    pub fn trace_ids(self, current: fn() -> Option<TraceIds>) -> Self {
        Self { trace_ids: Some(current) }
    }
}

/// What is known about a span, in its extensions.
struct WatchedSpan {
    node: Arc<SpanPath>,
    /// In how many threads, or how often in one thread, it is entered.
    entered: u32,
    /// When it was left, or made.
    left: Instant,
    /// The idle time that was counted when it was last entered, as far as no child was idle meanwhile.
    idle: u64,
    /// How long children were idle since it was left; that time is theirs.
    of_children: u64,
    /// `Some` once it was looked for.
    ids: Option<Option<TraceIds>>,
    /// The labels of the thread that entered it last, and the same with the span's.
    labels: Option<(LabelSet, LabelSet)>,
}

impl WatchedSpan {
    fn new(node: Arc<SpanPath>, now: Instant) -> Self {
        Self { node, entered: 0, left: now, idle: 0, of_children: 0, ids: None, labels: None }
    }

    /// Counts the time since it was left, and returns how much that is.
    fn end_idle(&mut self, now: Instant) -> u64 {
        let all = nanos(self.left, now);
        self.idle = all.saturating_sub(std::mem::take(&mut self.of_children));
        self.node.sums.add_idle(self.idle);
        all
    }

    /// Notes how long a child was idle.
    fn child_was_idle(&mut self, nanos: u64) {
        if self.entered == 0 {
            self.of_children = self.of_children.saturating_add(nanos);
            return;
        }
        let theirs = nanos.min(self.idle);
        self.idle -= theirs;
        self.node.sums.take_idle(theirs);
    }

    /// Returns the labels of this thread with those of the span.
    fn labels(&mut self, find: Option<fn() -> Option<TraceIds>>) -> LabelSet {
        if let Some((before, within)) = &self.labels
            && before.is_current()
        {
            return within.clone();
        }
        let ids = *self.ids.get_or_insert_with(|| find.and_then(|find| find()));
        let before = LabelSet::current();
        let ids = ids.map(|ids| ids.labels()).into_iter().flatten();
        let within = before.with(ids.chain([("span", self.node.path.to_string())]));
        self.labels = Some((before, within.clone()));
        within
    }
}

/// Changes what is known about a span; spans that the layer has not seen being made are left alone.
fn change<S, T>(span: &SpanRef<'_, S>, change: impl FnOnce(&mut WatchedSpan) -> T) -> Option<T>
where
    S: for<'a> LookupSpan<'a>,
{
    span.extensions_mut().get_mut::<WatchedSpan>().map(change)
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| change(&parent, |it| it.node.clone()));
        let node = tree().child(parent.as_ref(), span.metadata());
        span.extensions_mut().replace(WatchedSpan::new(node, Instant::now()));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let (Some(span), now) = (context.span(id), Instant::now()) else { return };
        let entered = change(&span, |it| {
            let idle = if it.entered == 0 { it.end_idle(now) } else { 0 };
            it.entered += 1;
            (it.node.clone(), it.labels(self.trace_ids), idle)
        });
        let Some((node, labels, idle)) = entered else { return };
        if idle > 0
            && let Some(parent) = span.parent()
        {
            change(&parent, |it| it.child_was_idle(idle));
        }
        entered::enter(id.into_u64(), node, &labels, now);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let now = Instant::now();
        entered::exit(id.into_u64(), now);
        if let Some(span) = context.span(id) {
            change(&span, |it| {
                it.entered = it.entered.saturating_sub(1);
                it.left = now;
            });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let (Some(span), now) = (context.span(&id), Instant::now()) else { return };
        let idle = change(&span, |it| {
            it.node.sums.closed.fetch_add(1, Ordering::Relaxed);
            it.end_idle(now)
        });
        if let (Some(idle), Some(parent)) = (idle, span.parent()) {
            change(&parent, |it| it.child_was_idle(idle));
        }
    }
}
