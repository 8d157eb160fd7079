//! The call graph for the page: the heaviest functions, and what flows between them.

use std::cmp::Reverse;

use flamelet_profile::Profile;
use serde::Serialize;

use super::frames::Frames;
use super::functions::FunctionRow;
use super::palette::hue_of;
use super::weights::{StackWeights, Value};

#[derive(Clone, Debug, Serialize)]
struct GraphNode {
    name: String,
    hue: u32,
    flat: u64,
    cum: u64,
    /// What `flat` and `cum` were in the base of a difference, and what they are now.
    flat_new: i64,
    flat_base: i64,
    cum_new: i64,
    cum_base: i64,
    /// How near to the root it is met first.
    depth: u32,
}

#[derive(Clone, Debug, Serialize)]
struct GraphEdge {
    from: u32,
    to: u32,
    weight: u64,
    new: i64,
    base: i64,
    /// Whether one calls the other; else through functions that are not in the graph.
    direct: bool,
}

/// Functions and who calls whom.
#[derive(Clone, Debug, Serialize)]
pub struct CallGraph {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
    diff: bool,
    /// How many functions are not in the graph.
    left_out: usize,
}

/// An edge while it is summed: what flows over it, and the last stack that counted.
#[derive(Clone, Copy)]
struct Flow {
    value: Value,
    direct: bool,
    /// The last stack of each side.
    seen: [u32; 2],
}

/// The graph of the first `count` of `rows` (as [`functions`](super::functions()) sorts them) and of those
/// that cost most themselves; of a difference, those that changed most. An edge counts a stack once, however often it recurs.
pub fn call_graph(
    profile: &Profile,
    frames: &Frames,
    weights: &StackWeights,
    rows: &[FunctionRow],
    count: usize,
) -> CallGraph {
    let diff = weights.is_diff();
    let chosen = heaviest(rows, count, diff);
    let mut node_of = vec![u32::MAX; frames.name_count()];
    chosen.iter().zip(0..).for_each(|(row, at)| node_of[row.name.index()] = at);
    let mut depths = vec![u32::MAX; chosen.len()];
    let flows = flows(profile, frames, weights, &node_of, &mut depths);
    let least = weights.total().weight() / 1000;
    let mut edges = Vec::new();
    for (at, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.value.weight() > least) {
        let (from, to) = ((at / chosen.len()) as u32, (at % chosen.len()) as u32);
        let Value { new, base, .. } = flow.value;
        edges.push(GraphEdge { from, to, weight: flow.value.weight(), new, base, direct: flow.direct });
    }
    let node = |row: &FunctionRow| {
        let name = frames.text(profile, row.name);
        let (flat, cum) = (row.flat.weight(), row.cumulative.weight());
        GraphNode {
            name: name.to_owned(),
            hue: hue_of(&frames.krate(profile, row.name)),
            flat,
            cum,
            flat_new: row.flat.new,
            flat_base: row.flat.base,
            cum_new: row.cumulative.new,
            cum_base: row.cumulative.base,
            depth: 0,
        }
    };
    let mut nodes: Vec<_> = chosen.iter().map(node).collect();
    nodes.iter_mut().zip(depths).for_each(|(node, depth)| node.depth = depth);
    CallGraph { nodes, edges, diff, left_out: rows.len() - chosen.len() }
}

/// Half by what they cost with all they call, half by what they cost themselves. Of a difference it is not the
/// cost that counts but its change.
fn heaviest(rows: &[FunctionRow], count: usize, diff: bool) -> Vec<FunctionRow> {
    let rank = |value: &Value| if diff { value.delta().unsigned_abs() } else { value.weight() };
    let mut chosen = rows.to_vec();
    chosen.sort_by_key(|row| Reverse(rank(&row.cumulative)));
    let mut rest = chosen.split_off(chosen.len().min(count / 2));
    rest.sort_by_key(|row| Reverse((rank(&row.flat), rank(&row.cumulative))));
    chosen.extend(rest.into_iter().take(count - chosen.len()));
    chosen
}

fn flows(
    profile: &Profile,
    frames: &Frames,
    weights: &StackWeights,
    node_of: &[u32],
    depths: &mut [u32],
) -> Vec<Flow> {
    let count = depths.len();
    let mut flows = vec![Flow { value: Value::default(), direct: false, seen: [u32::MAX; 2] }; count * count];
    for (stack, part) in weights.parts() {
        let side = usize::from(part.is_base);
        let mut caller: Option<(u32, bool)> = None;
        let mut depth = 0;
        for &location in profile.stack(stack).iter().rev() {
            for &name in frames.raw(location).iter().rev() {
                let callee = node_of[name as usize];
                depth += 1;
                if callee == u32::MAX {
                    caller = caller.map(|(node, _)| (node, false));
                    continue;
                }
                depths[callee as usize] = depths[callee as usize].min(depth);
                if let Some((from, direct)) = caller {
                    let flow = &mut flows[from as usize * count + callee as usize];
                    flow.direct |= direct;
                    if flow.seen[side] != stack.index() as u32 {
                        flow.seen[side] = stack.index() as u32;
                        flow.value += part.into();
                    }
                }
                caller = Some((callee, true));
            }
        }
    }
    flows
}
