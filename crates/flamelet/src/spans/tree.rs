//! The paths of spans, and what is counted for each.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use flamelet_capture::own_threads::unseen;
use tracing_core::Metadata;
use tracing_core::callsite::Identifier;

/// More paths than this are counted for the span around them.
const MOST_PATHS: usize = 2_000;

/// Deeper spans are counted for the span around them.
const DEEPEST: usize = 64;

/// Longer paths lose their outermost spans in labels.
const LONGEST_PATH: usize = 200;

/// A path of spans.
pub(super) struct Node {
    /// The span around this one; `None` for the root, which is no span.
    pub(super) parent: Option<Arc<Node>>,
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) line: u32,
    /// The names of all spans of the path, as a label.
    pub(super) path: Box<str>,
    depth: usize,
    children: RwLock<Vec<(Identifier, Arc<Node>)>>,
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

/// All paths of the process.
pub(super) struct Tree {
    root: Arc<Node>,
    /// For outermost spans beyond the limit.
    other: Arc<Node>,
    /// All but the root, parents before children.
    nodes: RwLock<Vec<Arc<Node>>>,
    count: AtomicUsize,
}

static TREE: LazyLock<Tree> = LazyLock::new(Tree::new);

/// Returns the tree of this process.
pub(super) fn tree() -> &'static Tree {
    &TREE
}

/// Returns whether there ever was a span.
#[cfg(feature = "http")]
pub(crate) fn were_made() -> bool {
    tree().count.load(Ordering::Relaxed) > 0
}

impl Tree {
    fn new() -> Self {
        let root = Arc::new(Node::new(None, "", "", 0));
        let other = Arc::new(Node::new(Some(root.clone()), "(other)", "", 0));
        Self { root, nodes: RwLock::new(vec![other.clone()]), other, count: AtomicUsize::new(0) }
    }

    /// Returns the path of a span inside `parent`, or an outermost one.
    pub(super) fn child(&self, parent: Option<&Arc<Node>>, span: &'static Metadata<'static>) -> Arc<Node> {
        let above = parent.unwrap_or(&self.root);
        if let Some(known) = above.known(&span.callsite()) {
            return known;
        }
        let mut children = unseen(|| above.children.write()).unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = children.iter().find(|(callsite, _)| *callsite == span.callsite()) {
            return known.clone();
        }
        let is_full = self.count.fetch_add(1, Ordering::Relaxed) >= MOST_PATHS;
        if is_full || above.depth >= DEEPEST {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return parent.unwrap_or(&self.other).clone();
        }
        let (file, line) = (span.file().unwrap_or_default(), span.line().unwrap_or(0));
        let node = Arc::new(Node::new(Some(above.clone()), span.name(), file, line));
        children.push((span.callsite(), node.clone()));
        drop(children);
        unseen(|| self.nodes.write()).unwrap_or_else(PoisonError::into_inner).push(node.clone());
        node
    }

    /// Returns all paths. A later call returns the same ones first, in the same order.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        unseen(|| self.nodes.read()).unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Node {
    fn new(parent: Option<Arc<Self>>, name: &'static str, file: &'static str, line: u32) -> Self {
        let path = match &parent {
            Some(above) if !above.path.is_empty() => cut(&format!("{}:{name}", above.path)).into(),
            _ => cut(name).into(),
        };
        let depth = parent.as_ref().map_or(0, |above| above.depth + 1);
        Self { parent, name, file, line, path, depth, children: RwLock::default(), sums: Sums::default() }
    }

    fn known(&self, span: &Identifier) -> Option<Arc<Self>> {
        let children = unseen(|| self.children.read()).unwrap_or_else(PoisonError::into_inner);
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

    /// Not of size zero: each has an address of its own, by which callsites are told apart.
    struct Site(#[allow(dead_code, reason = "for its size")] u8);

    impl Callsite for Site {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("nobody asks")
        }
    }

    /// A span of a line of its own.
    fn span(name: &'static str) -> &'static Metadata<'static> {
        let site: &'static Site = Box::leak(Box::new(Site(0)));
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
        let tree = Tree::new();
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

    #[test]
    fn a_storm_of_spans_is_bounded() {
        let tree = Tree::new();
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
