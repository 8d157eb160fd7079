//! The call graph for the page: the heaviest functions, the cost that flows between them, and where to draw them.

use std::cmp::Reverse;

use flamelet_profile::{LabelSetId, Profile, sort_rows_by_key};

use crate::flame::hue_of;
use crate::graph::layers::{BoxCall, Gaps, Size, place};
use crate::graph::{Flow, FlowGraph, GraphPlan, build};
use crate::names::package_name;
use crate::stacks::{Chain, Chains, Frames, NameId, OwnerId, StackWeights, Value};

/// Boxes are two lines high, and the more their function costs, the wider they are.
const BOX_HEIGHT: f64 = 38.0;
const NARROWEST_BOX: f64 = 110.0;
const WIDEST_BOX: f64 = 240.0;
const GAPS: Gaps = Gaps { boxes: 18.0, layers: 34.0 };

/// More lines than this cannot be distinguished.
const MAX_EDGES_PER_NODE: usize = 5;

#[derive(Clone, Debug)]
struct GraphNode {
    name: String,
    hue: u32,
    /// Whose code it is, in one word.
    owner: &'static str,
    /// It stands for chains of frames, and not for a function.
    chain: bool,
    flat: u64,
    cum: u64,
    /// The values of `flat` and `cum` on the new side and in the base of a diff.
    flat_new: i64,
    flat_base: i64,
    cum_new: i64,
    cum_base: i64,
    /// The centre of its box.
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}
serialize!(
    GraphNode: name, hue, owner, chain, flat, cum, flat_new, flat_base, cum_new, cum_base, x, y, width,
    height
);

#[derive(Clone, Debug)]
struct GraphEdge {
    from: usize,
    to: usize,
    weight: u64,
    new: i64,
    base: i64,
    /// Whether one calls the other directly, not only through functions that are not in the graph.
    direct: bool,
    /// The points of its line, from the caller to the callee.
    points: Vec<(i32, i32)>,
}
serialize!(GraphEdge: from, to, weight, new, base, direct, points);

/// Functions and the calls between them.
#[derive(Clone, Debug)]
pub struct CallGraph {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
    diff: bool,
    /// How many functions are not in the graph.
    left_out: usize,
    width: i32,
    height: i32,
}
serialize!(CallGraph: nodes, edges, diff, left_out, width, height);

/// Builds the graph of the `count` functions with the largest cost, half of them by their own cost; for a diff, of those
/// that changed most. With `is_folded`, chains of frames that are not yours are one box for each owner. An edge counts a
/// stack once, however often it recurs.
pub fn call_graph(
    profile: &Profile,
    frames: &Frames,
    weights: &StackWeights,
    count: usize,
    is_folded: bool,
) -> CallGraph {
    let chains = is_folded.then(|| Chains::of(profile, frames));
    let entries = Entries { profile, frames, chains: chains.as_ref() };
    let rows = entries.rows(weights);
    let diff = weights.is_diff();
    let chosen = heaviest(&rows, count, diff);
    let total = weights.total().weight();
    let edges = entries.edges(weights, &chosen).into_iter().filter(|edge| edge.weight > total / 1000);
    let mut edges: Vec<GraphEdge> = edges.collect();
    let size = |edge: &GraphEdge| if diff { edge.new.abs_diff(edge.base) } else { edge.weight };
    sort_rows_by_key(&mut edges, |edge| Reverse(size(edge)));
    edges.truncate(count * MAX_EDGES_PER_NODE);
    let mut nodes: Vec<GraphNode> = chosen.iter().map(|row| entries.node(row, total)).collect();
    let sizes: Vec<Size> =
        nodes.iter().map(|node| Size { width: node.width.into(), height: node.height.into() }).collect();
    let call = |edge: &GraphEdge| BoxCall { caller: edge.from, callee: edge.to, weight: edge.weight as f64 };
    let calls: Vec<BoxCall> = edges.iter().map(call).collect();
    let placed = place(&sizes, &calls, GAPS);
    for (node, &(x, y)) in nodes.iter_mut().zip(&placed.boxes) {
        (node.x, node.y) = (rounded(x), rounded(y));
    }
    for (edge, points) in edges.iter_mut().zip(&placed.paths) {
        edge.points = points.iter().map(|&(x, y)| (rounded(x), rounded(y))).collect();
    }
    let left_out = rows.len() - chosen.len();
    CallGraph { nodes, edges, diff, left_out, width: rounded(placed.width), height: rounded(placed.height) }
}

/// Rounds to whole pixels, which are short to write.
fn rounded(pixels: f64) -> i32 {
    pixels.round() as i32
}

/// An entry of the graph with its cost.
#[derive(Clone, Copy)]
struct EntryRow {
    entry: u32,
    flat: Value,
    cum: Value,
}

/// What a graph can show: the names of functions and, after those, the owners of chains of frames.
struct Entries<'a> {
    profile: &'a Profile,
    frames: &'a Frames,
    chains: Option<&'a Chains>,
}

impl Entries<'_> {
    fn rows(&self, weights: &StackWeights) -> Vec<EntryRow> {
        let names = self.frames.name_count();
        let count = names + self.chains.map_or(0, |_| self.frames.owner_count());
        let empty = |entry| EntryRow { entry, flat: Value::default(), cum: Value::default() };
        let mut rows: Vec<EntryRow> = (0..count as u32).map(empty).collect();
        // The last stack that was counted for each entry, so that recursion counts once.
        let mut seen = vec![0u32; count];
        let mut marks: Vec<Option<Chain>> = Vec::new();
        for (stamp, (stack, value)) in (1u32..).zip(weights.iter()) {
            let stack = self.profile.stack(stack);
            if let Some(chains) = self.chains {
                chains.of_stack(self.frames, stack, &mut marks);
            }
            let frames = stack.iter().flat_map(|&location| self.frames.raw(location));
            for (at, &name) in frames.enumerate() {
                let chain = marks.get(at).copied().flatten();
                let entry = chain.map_or(name as usize, |chain| names + chain.owner.index());
                if at == 0 {
                    rows[entry].flat += value;
                }
                if std::mem::replace(&mut seen[entry], stamp) != stamp {
                    rows[entry].cum += value;
                }
            }
        }
        rows.retain(|row| row.cum.weight() != 0);
        rows
    }

    fn node(&self, row: &EntryRow, total: u64) -> GraphNode {
        let share = (row.cum.weight() as f64 / total.max(1) as f64).min(1.0);
        let chain = (row.entry as usize).checked_sub(self.frames.name_count()).map(OwnerId::from_index);
        let name = NameId(row.entry);
        let (text, krate, owner) = match chain {
            Some(owner) => {
                let owner = self.frames.owner_at(owner);
                (format!("{} · folded", package_name(owner)), String::new(), owner)
            }
            None => {
                let text = self.frames.text(self.profile, name).to_owned();
                (text, self.frames.krate(self.profile, name), self.frames.owner(name))
            }
        };
        GraphNode {
            name: text,
            hue: hue_of(owner, &krate),
            owner: owner.kind(),
            chain: chain.is_some(),
            flat: row.flat.weight(),
            cum: row.cum.weight(),
            flat_new: row.flat.new,
            flat_base: row.flat.base,
            cum_new: row.cum.new,
            cum_base: row.cum.base,
            x: 0,
            y: 0,
            width: rounded(NARROWEST_BOX + (WIDEST_BOX - NARROWEST_BOX) * share.sqrt()),
            height: rounded(BOX_HEIGHT),
        }
    }

    /// Returns the cost that flows between the `chosen` entries.
    fn edges(&self, weights: &StackWeights, chosen: &[EntryRow]) -> Vec<GraphEdge> {
        let mut places = vec![usize::MAX; self.frames.name_count() + self.frames.owner_count()];
        chosen.iter().enumerate().for_each(|(at, row)| places[row.entry as usize] = at);
        let kept: Vec<bool> = places.iter().map(|&at| at != usize::MAX).collect();
        let plan = GraphPlan {
            profile: self.profile,
            table: &self.frames.table,
            count: self.frames.name_count(),
            kept: Some(&kept),
            chains: self.chains.map(|chains| (chains, self.frames)),
            as_tree: false,
            with_recursion: true,
            #[cfg(feature = "text")]
            tags: None,
        };
        let stacks = weights.iter().map(|(stack, value)| (stack, LabelSetId::EMPTY, value));
        let graph: FlowGraph<usize, Value> = build(&plan, stacks, |entry| places[entry as usize]);
        let edge = |edge: &Flow<Value>| GraphEdge {
            from: graph.nodes[edge.caller].info,
            to: graph.nodes[edge.callee].info,
            weight: edge.weight.weight(),
            new: edge.weight.new,
            base: edge.weight.base,
            direct: edge.is_direct,
            points: Vec::new(),
        };
        graph.edges.iter().map(edge).collect()
    }
}

/// Chooses half of the entries by cumulative cost and half by own cost; for a diff, by the change of the cost.
fn heaviest(rows: &[EntryRow], count: usize, diff: bool) -> Vec<EntryRow> {
    let rank = |value: &Value| if diff { value.delta().unsigned_abs() } else { value.weight() };
    let mut chosen = rows.to_vec();
    sort_rows_by_key(&mut chosen, |row| Reverse(rank(&row.cum)));
    let mut rest = chosen.split_off(chosen.len().min(count / 2));
    sort_rows_by_key(&mut rest, |row| Reverse((rank(&row.flat), rank(&row.cum))));
    chosen.extend(rest.into_iter().take(count - chosen.len()));
    chosen
}
