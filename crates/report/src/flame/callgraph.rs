//! The call graph for the page: the heaviest functions, and what flows between them.

use flamelet_profile::Profile;
use serde::Serialize;

use super::frames::Frames;
use super::functions::FunctionRow;
use super::palette::hue_of;
use super::weights::StackWeights;

#[derive(Clone, Debug, Serialize)]
struct GraphNode {
    name: String,
    hue: u32,
    flat: u64,
    cum: u64,
    /// How near to the root it is met first.
    depth: u32,
}

#[derive(Clone, Debug, Serialize)]
struct GraphEdge {
    from: u32,
    to: u32,
    weight: u64,
    /// Whether one calls the other; else through functions that are not in the graph.
    direct: bool,
}

/// Functions and who calls whom.
#[derive(Clone, Debug, Serialize)]
pub struct CallGraph {
    nodes: Vec<GraphNode>,
    edges: Vec<GraphEdge>,
    /// How many functions are not in the graph.
    left_out: usize,
}

/// An edge while it is summed: what flows over it, and the last stack that counted.
#[derive(Clone, Copy)]
struct Flow {
    weight: u64,
    direct: bool,
    seen: u32,
}

/// The graph of the first `count` of `rows` (as [`functions`](super::functions()) sorts them) and of those
/// that cost most themselves. An edge counts a stack once, however often it recurs.
pub fn call_graph(
    profile: &Profile,
    frames: &Frames,
    weights: &StackWeights,
    rows: &[FunctionRow],
    count: usize,
) -> CallGraph {
    let chosen = heaviest(rows, count);
    let mut node_of = vec![u32::MAX; frames.name_count()];
    chosen.iter().zip(0..).for_each(|(row, at)| node_of[row.name.index()] = at);
    let mut depths = vec![u32::MAX; chosen.len()];
    let flows = flows(profile, frames, weights, &node_of, &mut depths);
    let least = weights.total().weight() / 1000;
    let mut edges = Vec::new();
    for (at, flow) in flows.iter().enumerate().filter(|(_, flow)| flow.weight > least) {
        let (from, to) = ((at / chosen.len()) as u32, (at % chosen.len()) as u32);
        edges.push(GraphEdge { from, to, weight: flow.weight, direct: flow.direct });
    }
    let node = |row: &FunctionRow| {
        let name = frames.text(profile, row.name);
        let (flat, cum) = (row.flat.weight(), row.cumulative.weight());
        GraphNode {
            name: name.to_owned(),
            hue: hue_of(&frames.krate(profile, row.name)),
            flat,
            cum,
            depth: 0,
        }
    };
    let mut nodes: Vec<_> = chosen.iter().map(node).collect();
    nodes.iter_mut().zip(depths).for_each(|(node, depth)| node.depth = depth);
    CallGraph { nodes, edges, left_out: rows.len() - chosen.len() }
}

/// Half by what they cost with all they call, half by what they cost themselves.
fn heaviest(rows: &[FunctionRow], count: usize) -> Vec<FunctionRow> {
    let mut chosen: Vec<_> = rows.iter().take(count / 2).copied().collect();
    let mut rest: Vec<_> = rows.iter().skip(count / 2).copied().collect();
    rest.sort_by_key(|row| std::cmp::Reverse((row.flat.weight(), row.cumulative.weight())));
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
    let mut flows = vec![Flow { weight: 0, direct: false, seen: u32::MAX }; count * count];
    for (stack, value) in weights.iter() {
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
                    if flow.seen != stack.index() as u32 {
                        flow.seen = stack.index() as u32;
                        flow.weight = flow.weight.saturating_add(value.weight());
                    }
                }
                caller = Some((callee, true));
            }
        }
    }
    flows
}
