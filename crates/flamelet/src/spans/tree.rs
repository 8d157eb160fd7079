//! The paths of spans, and what is counted for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

use crate::work::lock::{PerProcess, ProcessRwLock};

/// More paths than this are counted for the span around them.
const MOST_PATHS: usize = 2_000;

/// Deeper spans are counted for the span around them.
const DEEPEST: usize = 64;

/// Longer paths lose their outermost spans in labels.
const LONGEST_PATH: usize = 200;

pub(super) struct SpanPath {
    /// The span around this one; `None` for the root, which is no span.
    pub(super) parent: Option<Arc<SpanPath>>,
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) line: u32,
    /// The names of all spans of the path, as a label.
    pub(super) path: Box<str>,
    depth: usize,
    /// Those that this process made: the child of a fork goes on with the spans that it was forked in.
    children: ProcessRwLock<Vec<(Identifier, Arc<SpanPath>)>>,
    pub(super) sums: Sums,
}

/// What is counted for a path.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) closed: AtomicU64,
    busy: AtomicU64,
    idle: AtomicU64,
}

impl Sums {
    pub(super) fn add_busy(&self, nanos: u64) {
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn add_idle(&self, nanos: u64) {
        self.idle.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Takes back idle time that was added before.
    pub(super) fn take_idle(&self, nanos: u64) {
        self.idle.fetch_sub(nanos, Ordering::Relaxed);
    }

    /// Returns how many spans were closed, and how long they were busy and idle.
    pub(super) fn read(&self) -> [u64; 3] {
        [&self.closed, &self.busy, &self.idle].map(|sum| sum.load(Ordering::Relaxed))
    }
}

/// All paths of the process. The child of a fork counts its own.
pub(super) struct SpanTree {
    root: Arc<SpanPath>,
    /// For outermost spans beyond the limit.
    other: Arc<SpanPath>,
    /// All others but the root, parents before children.
    nodes: ProcessRwLock<Vec<Arc<SpanPath>>>,
    count: AtomicUsize,
}

static TREE: PerProcess<SpanTree> = PerProcess::new();

/// Returns the tree of this process.
pub(super) fn tree() -> &'static SpanTree {
    TREE.get_quick(|_| SpanTree::new())
}

/// Returns whether there ever was a span.
#[cfg(feature = "http")]
pub(crate) fn were_made() -> bool {
    tree().count.load(Ordering::Relaxed) > 0
}

impl SpanTree {
    fn new() -> Self {
        let root = Arc::new(SpanPath::new(None, "", "", 0));
        let other = Arc::new(SpanPath::new(Some(root.clone()), "(other)", "", 0));
        Self { root, other, nodes: ProcessRwLock::default(), count: AtomicUsize::new(0) }
    }

    /// Returns the path of a span inside `parent`, or an outermost one.
    pub(super) fn child(
        &self,
        parent: Option<&Arc<SpanPath>>,
        span: &'static Metadata<'static>,
    ) -> Arc<SpanPath> {
        let above = parent.unwrap_or(&self.root);
        if let Some(known) = above.known(&span.callsite()) {
            return known;
        }
        let mut children = above.children.write();
        if let Some((_, known)) = children.iter().find(|(callsite, _)| *callsite == span.callsite()) {
            return known.clone();
        }
        let is_full = self.count.fetch_add(1, Ordering::Relaxed) >= MOST_PATHS;
        if is_full || above.depth >= DEEPEST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return parent.unwrap_or(&self.other).clone();
        }
        let (file, line) = (span.file().unwrap_or_default(), span.line().unwrap_or(0));
        let node = Arc::new(SpanPath::new(Some(above.clone()), span.name(), file, line));
        children.push((span.callsite(), node.clone()));
        drop(children);
        self.nodes.write().push(node.clone());
        node
    }

    /// Returns all paths. A later call returns the same ones first, in the same order.
    pub(super) fn nodes(&self) -> Vec<Arc<SpanPath>> {
        std::iter::once(&self.other).chain(&*self.nodes.read()).cloned().collect()
    }
}

impl SpanPath {
    fn new(parent: Option<Arc<Self>>, name: &'static str, file: &'static str, line: u32) -> Self {
        let path = match &parent {
            Some(above) if !above.path.is_empty() => cut(&format!("{}:{name}", above.path)).into(),
            _ => cut(name).into(),
        };
        let depth = parent.as_ref().map_or(0, |above| above.depth + 1);
        let children = ProcessRwLock::default();
        Self { parent, name, file, line, path, depth, children, sums: Sums::default() }
    }

    fn known(&self, span: &Identifier) -> Option<Arc<Self>> {
        let children = self.children.read();
        children.iter().find(|(callsite, _)| callsite == span).map(|(_, node)| node.clone())
    }

    /// Returns the spans from this one outwards.
    pub(super) fn outwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.parent.as_deref()).filter(|node| node.parent.is_some())
    }
}

/// Cuts a path to its innermost part.
fn cut(path: &str) -> &str {
    let start = path.len().saturating_sub(LONGEST_PATH);
    let start = (start..=path.len()).find(|&at| path.is_char_boundary(at)).unwrap_or(path.len());
    &path[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_core::{Kind, Level, callsite::Callsite, field::FieldSet, subscriber::Interest};

    /// Not of size zero: each has an address of its own, by which callsites are distinguished.
    struct TestCallsite(#[allow(dead_code, reason = "for its size")] u8);

    impl Callsite for TestCallsite {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("not called")
        }
    }

    /// A span of a line of its own.
    fn span(name: &'static str) -> &'static Metadata<'static> {
        let site: &'static TestCallsite = Box::leak(Box::new(TestCallsite(0)));
        let fields = FieldSet::new(&[], Identifier(site));
        let place = (Some("main.rs"), Some(7));
        Box::leak(Box::new(Metadata::new(
            name,
            "test",
            Level::INFO,
            place.0,
            place.1,
            None,
            fields,
            Kind::SPAN,
        )))
    }

    #[test]
    fn a_path_is_one_node_and_names_its_spans() {
        let tree = SpanTree::new();
        let (outer, inner) = (span("request"), span("query"));
        let request = tree.child(None, outer);
        let query = tree.child(Some(&request), inner);
        assert!(Arc::ptr_eq(&query, &tree.child(Some(&tree.child(None, outer)), inner)));
        assert_eq!(&*query.path, "request:query");
        assert_eq!(query.outwards().map(|node| node.name).collect::<Vec<_>>(), ["query", "request"]);
        assert_eq!(tree.nodes().len(), 3, "both, and the one for others");
        let alone = tree.child(None, inner);
        assert_eq!((&*alone.path, alone.line), ("query", 7));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_counts_its_own_spans_even_if_all_was_locked_at_the_fork() {
        let (outer, inner, own) = (span("of the parent"), span("inside"), span("of the child"));
        let request = tree().child(None, outer);
        let has = |name: &str| tree().nodes().iter().any(|node| node.name == name);
        assert!(has("of the parent"));
        // As other threads would hold them.
        let held = (tree().nodes.write(), tree().root.children.write(), request.children.write());
        let is_free = flamelet_test_support::holds_in_child(|| {
            let alone = tree().child(None, own);
            let inside = tree().child(Some(&request), inner);
            let is_new = has("of the child") && has("inside") && !has("of the parent");
            is_new && alone.depth == 1 && &*inside.path == "of the parent:inside"
        });
        drop(held);
        assert!(is_free);
        assert!(has("of the parent") && !has("of the child") && !has("inside"));
    }

    #[test]
    fn a_storm_of_spans_is_bounded() {
        let tree = SpanTree::new();
        let mut node = tree.child(None, span("outermost"));
        for _ in 0..2 * DEEPEST {
            node = tree.child(Some(&node), span("deeper"));
        }
        assert_eq!(node.outwards().count(), DEEPEST);
        assert!(node.path.len() <= LONGEST_PATH && node.path.ends_with(":deeper"), "{}", node.path);
        let last = (0..2 * MOST_PATHS).map(|_| tree.child(None, span("many"))).last();
        assert_eq!(last.map(|node| node.name), Some("(other)"));
        assert_eq!(tree.nodes().len(), MOST_PATHS + 1);
    }
}
