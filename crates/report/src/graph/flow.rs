//! Functions and the cost that flows between them, summed over stacks: the basis of every call graph.

use std::ops::AddAssign;

use flamelet_profile::{LabelSetId, Profile, StackId};
use rustc_hash::FxHashMap;

#[cfg(feature = "text")]
use super::tags::{NodeTags, TagNames};
use crate::stacks::{Chain, Chains, FrameTable, Frames};

/// A function with its cost.
pub(crate) struct FlowNode<I, W> {
    /// What it is.
    pub(crate) info: I,
    /// Its own cost.
    pub(crate) flat: W,
    /// Its cost, including everything it called.
    pub(crate) cum: W,
    #[cfg(feature = "text")]
    pub(crate) tags: NodeTags<W>,
}

/// The cost that flows from a caller to a callee.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow<W> {
    /// The caller's row in [`FlowGraph::nodes`].
    pub(crate) caller: usize,
    /// The callee's row in [`FlowGraph::nodes`].
    pub(crate) callee: usize,
    /// The cost of the calls.
    pub(crate) weight: W,
    /// In some stacks, functions that are not in the graph are between the two.
    pub(crate) is_residual: bool,
    /// In some stacks, nothing is between the two.
    pub(crate) is_direct: bool,
    /// The callee was inlined into the caller.
    pub(crate) is_inlined: bool,
    /// The last stack that was counted.
    seen: u32,
}

/// Functions, and the calls between them.
pub(crate) struct FlowGraph<I, W> {
    /// The functions, in the order in which the stacks reach them.
    pub(crate) nodes: Vec<FlowNode<I, W>>,
    /// The calls between them.
    pub(crate) edges: Vec<Flow<W>>,
}

/// Which functions a graph contains, and how.
#[derive(Clone, Copy)]
pub(crate) struct GraphPlan<'a> {
    pub(crate) profile: &'a Profile,
    /// The entry, out of `count`, that each frame stands for.
    pub(crate) table: &'a FrameTable,
    pub(crate) count: usize,
    /// The entries to keep; `None` for all.
    pub(crate) kept: Option<&'a [bool]>,
    /// Chains of frames to fold into one entry each: these come after the `count` others, by the row of their owner.
    pub(crate) chains: Option<(&'a Chains, &'a Frames)>,
    /// One node for each way to reach a function, instead of one for the function.
    pub(crate) as_tree: bool,
    /// A function that calls itself gets an edge to itself.
    pub(crate) with_recursion: bool,
    #[cfg(feature = "text")]
    pub(crate) tags: Option<&'a TagNames>,
}

impl GraphPlan<'_> {
    /// Returns how many entries there are, with those of chains.
    fn entry_count(&self) -> usize {
        self.count + self.chains.map_or(0, |(_, frames)| frames.owner_count())
    }

    fn chain_entry(&self, chain: Chain) -> u32 {
        (self.count + chain.owner.index()) as u32
    }
}

const NONE: usize = usize::MAX;

/// Builds the graph of `stacks`, given with their labels. `info` returns what an entry is.
pub(crate) fn build<I, W: Copy + Default + AddAssign>(
    plan: &GraphPlan<'_>,
    stacks: impl Iterator<Item = (StackId, LabelSetId, W)>,
    info: impl Fn(u32) -> I,
) -> FlowGraph<I, W> {
    let mut builder = FlowBuilder {
        plan,
        info,
        by_path: FxHashMap::default(),
        by_entry: if plan.as_tree { Vec::new() } else { vec![NONE; plan.entry_count()] },
        edges: FxHashMap::default(),
        seen: Vec::new(),
        marks: Vec::new(),
        graph: FlowGraph { nodes: Vec::new(), edges: Vec::new() },
    };
    for (stamp, (stack, labels, weight)) in (1u32..).zip(stacks) {
        builder.add(&Passage { stamp, labels, weight }, stack);
    }
    builder.graph
}

/// One stack on its way through the graph. Its stamp marks the nodes it has passed, so that recursion counts once.
struct Passage<W> {
    stamp: u32,
    #[cfg_attr(not(feature = "text"), expect(dead_code, reason = "labels are drawn by text reports only"))]
    labels: LabelSetId,
    weight: W,
}

/// A call that a stack makes.
struct CallStep {
    caller: usize,
    callee: usize,
    is_residual: bool,
    is_inlined: bool,
}

struct FlowBuilder<'a, I, W, F> {
    plan: &'a GraphPlan<'a>,
    info: F,
    /// The rows of nodes: by entry, or in a tree by parent node and entry.
    by_entry: Vec<usize>,
    by_path: FxHashMap<(usize, u32), usize>,
    edges: FxHashMap<(usize, usize), usize>,
    /// The last stack that was counted for each node.
    seen: Vec<u32>,
    /// The chains of the current stack.
    marks: Vec<Option<Chain>>,
    graph: FlowGraph<I, W>,
}

impl<I, W: Copy + Default + AddAssign, F: Fn(u32) -> I> FlowBuilder<'_, I, W, F> {
    fn add(&mut self, passage: &Passage<W>, stack: StackId) {
        let plan = self.plan;
        let (mut caller, mut is_residual, mut last_chain) = (NONE, false, None);
        let locations = plan.profile.stack(stack);
        if let Some((chains, frames)) = plan.chains {
            chains.of_stack(frames, locations, &mut self.marks);
        }
        for &location in locations.iter().rev() {
            let frames = plan.table.at(location);
            for (at, &name) in frames.iter().enumerate().rev() {
                let chain = self.marks.pop().flatten();
                let is_same = chain.is_some() && last_chain == chain;
                last_chain = chain;
                if is_same {
                    continue;
                }
                let entry = chain.map_or(name, |chain| plan.chain_entry(chain));
                if plan.kept.is_some_and(|kept| !kept[entry as usize]) {
                    is_residual = true;
                    continue;
                }
                let callee = self.row(caller, entry);
                self.pass(callee, passage);
                if caller != NONE && (caller != callee || plan.with_recursion) {
                    let is_inlined = at + 1 != frames.len();
                    self.call(&CallStep { caller, callee, is_residual, is_inlined }, passage);
                }
                (caller, is_residual) = (callee, false);
            }
        }
        if caller != NONE && !is_residual {
            self.end(caller, passage);
        }
    }

    fn row(&mut self, parent: usize, entry: u32) -> usize {
        let slot = match self.plan.as_tree {
            true => self.by_path.entry((parent, entry)).or_insert(NONE),
            false => &mut self.by_entry[entry as usize],
        };
        if *slot == NONE {
            *slot = self.graph.nodes.len();
            self.graph.nodes.push(FlowNode {
                info: (self.info)(entry),
                flat: W::default(),
                cum: W::default(),
                #[cfg(feature = "text")]
                tags: NodeTags::default(),
            });
            self.seen.push(0);
        }
        *slot
    }

    fn pass(&mut self, row: usize, passage: &Passage<W>) {
        if self.seen[row] == passage.stamp {
            return;
        }
        self.seen[row] = passage.stamp;
        let node = &mut self.graph.nodes[row];
        node.cum += passage.weight;
        #[cfg(feature = "text")]
        if let Some(names) = self.plan.tags {
            node.tags.add(names, passage.labels, passage.weight, false);
        }
    }

    fn call(&mut self, call: &CallStep, passage: &Passage<W>) {
        let edges = &mut self.graph.edges;
        let row = *self.edges.entry((call.caller, call.callee)).or_insert_with(|| {
            edges.push(Flow {
                caller: call.caller,
                callee: call.callee,
                weight: W::default(),
                is_residual: false,
                is_direct: false,
                is_inlined: true,
                seen: 0,
            });
            edges.len() - 1
        });
        let edge = &mut edges[row];
        edge.is_direct |= !call.is_residual;
        if edge.seen != passage.stamp {
            edge.seen = passage.stamp;
            edge.weight += passage.weight;
            edge.is_residual |= call.is_residual;
            edge.is_inlined &= call.is_inlined;
        }
    }

    fn end(&mut self, row: usize, passage: &Passage<W>) {
        let leaf = &mut self.graph.nodes[row];
        leaf.flat += passage.weight;
        #[cfg(feature = "text")]
        if let Some(names) = self.plan.tags {
            leaf.tags.add(names, passage.labels, passage.weight, true);
        }
    }
}
