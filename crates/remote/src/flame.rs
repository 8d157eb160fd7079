//! Flame graphs in Pyroscope's form: levels of numbers, each node as (offset, total, self, name).

use crate::tree::CallTree;

/// A flame graph of one profile (four numbers a node) or of two (seven).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flame {
    pub(crate) names: Vec<String>,
    pub(crate) levels: Vec<Vec<i64>>,
    pub(crate) total: i64,
    pub(crate) max_self: i64,
}

/// What small nodes are put together as.
const OTHER: &str = "other";

/// How often Pyroscope truncates a tree: where it is stored, where parts are merged, and for the answer. Each time, the sums of
/// the small nodes count as nodes.
const TRUNCATIONS: usize = 3;

/// Returns the flame graph of a tree with about `most` nodes.
pub(crate) fn single(tree: &CallTree, most: usize) -> Flame {
    let mut tree = tree.truncated(most, OTHER);
    for _ in 1..TRUNCATIONS {
        tree = tree.truncated(most, OTHER);
    }
    let mut flame = Flame { total: tree.nodes[0].total, ..Flame::default() };
    let mut names = FlameNames::default();
    let mut stack = vec![(0usize, 0u32, 0i64)];
    while let Some((level, node, offset)) = stack.pop() {
        let node = &tree.nodes[node as usize];
        flame.max_self = flame.max_self.max(node.own);
        let name = names.number(&tree.names[node.name as usize]);
        push(&mut flame.levels, level, &[offset, node.total, node.own, name]);
        let mut offset = offset + node.own;
        let first = stack.len();
        for &child in &node.children {
            stack.push((level + 1, child, offset));
            offset += tree.nodes[child as usize].total;
        }
        // The leftmost is taken off first.
        stack[first..].reverse();
    }
    flame.levels.iter_mut().for_each(|level| sort_and_delta(level, 4));
    flame.names = names.names;
    flame
}

/// Returns the flame graph of two trees.
pub(crate) fn difference(left: &CallTree, right: &CallTree, most: usize) -> Flame {
    let total = left.nodes[0].total.saturating_add(right.nodes[0].total);
    let mut flame = Flame { total, ..Flame::default() };
    let mut names = FlameNames::default();
    let smallest = left.smallest_shown(most).max(right.smallest_shown(most));
    let mut stack = vec![(0usize, Some(0u32), Some(0u32), 0i64, 0i64)];
    while let Some((level, a, b, left_offset, right_offset)) = stack.pop() {
        let of = |tree: &CallTree, node: Option<u32>| {
            node.map_or((0, 0), |node| {
                let node = &tree.nodes[node as usize];
                (node.total, node.own)
            })
        };
        let ((left_total, left_own), (right_total, right_own)) = (of(left, a), of(right, b));
        flame.max_self = flame.max_self.max(left_own).max(right_own);
        let name_of =
            |tree: &CallTree, node: u32| tree.names[tree.nodes[node as usize].name as usize].clone();
        let name = a.map(|node| name_of(left, node)).or_else(|| b.map(|node| name_of(right, node)));
        let name = names.number(&name.unwrap_or_default());
        let values = [left_offset, left_total, left_own, right_offset, right_total, right_own, name];
        push(&mut flame.levels, level, &values);
        let (mut left_offset, mut right_offset) = (left_offset + left_own, right_offset + right_own);
        let first = stack.len();
        let mut rest = (0i64, 0i64);
        for (a, b) in pairs(left, a, right, b) {
            let (left_total, right_total) = (of(left, a).0, of(right, b).0);
            if left_total.max(right_total) < smallest {
                rest = (rest.0 + left_total, rest.1 + right_total);
                continue;
            }
            stack.push((level + 1, a, b, left_offset, right_offset));
            left_offset += left_total;
            right_offset += right_total;
        }
        stack[first..].reverse();
        if rest != (0, 0) {
            let name = names.number(OTHER);
            let values = [left_offset, rest.0, rest.0, right_offset, rest.1, rest.1, name];
            push(&mut flame.levels, level + 1, &values);
        }
    }
    flame.levels.iter_mut().for_each(|level| sort_and_delta(level, 7));
    flame.names = names.names;
    flame
}

/// Returns the children of two nodes, those of the same name together, sorted by name.
fn pairs(
    left: &CallTree,
    a: Option<u32>,
    right: &CallTree,
    b: Option<u32>,
) -> Vec<(Option<u32>, Option<u32>)> {
    let children = |tree: &CallTree, node: Option<u32>| {
        node.map(|node| tree.nodes[node as usize].children.clone()).unwrap_or_default()
    };
    let (mut a, mut b) =
        (children(left, a).into_iter().peekable(), children(right, b).into_iter().peekable());
    let name = |tree: &CallTree, node: u32| tree.names[tree.nodes[node as usize].name as usize].clone();
    let mut pairs = Vec::new();
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(&a), Some(&b)) => name(left, a).cmp(&name(right, b)),
        };
        pairs.push((a.next_if(|_| order.is_le()), b.next_if(|_| order.is_ge())));
    }
}

fn push(levels: &mut Vec<Vec<i64>>, level: usize, values: &[i64]) {
    if levels.len() <= level {
        levels.resize(level + 1, Vec::new());
    }
    levels[level].extend_from_slice(values);
}

/// Sorts the nodes of a level from left to right, and writes each offset as the distance from the end of the node
/// before it.
fn sort_and_delta(level: &mut Vec<i64>, width: usize) {
    let mut nodes: Vec<Vec<i64>> = level.chunks_exact(width).map(<[i64]>::to_vec).collect();
    let sides: &[usize] = if width == 7 { &[0, 3] } else { &[0] };
    nodes.sort_by_key(|node| sides.iter().map(|&side| node[side]).collect::<Vec<_>>());
    for &side in sides {
        let mut end = 0;
        for node in &mut nodes {
            let (offset, total) = (node[side], node[side + 1]);
            node[side] = offset - end;
            end = offset + total;
        }
    }
    *level = nodes.concat();
}

/// Names in the order of their first use. The first is the root's.
#[derive(Default)]
struct FlameNames {
    names: Vec<String>,
    numbers: std::collections::HashMap<String, i64>,
}

impl FlameNames {
    fn number(&mut self, name: &str) -> i64 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        let number = self.names.len() as i64;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::{LabelSetId, Profile, ProfileBuilder};

    fn profile(stacks: &[(&str, i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        for (stack, value) in stacks {
            let frames: Vec<_> = stack.split(';').rev().map(|name| builder.named_frame(name)).collect();
            let stack = builder.stack(&frames);
            builder.sample(stack, LabelSetId::EMPTY, &[*value]);
        }
        builder.finish()
    }

    #[test]
    fn a_known_flame_graph() {
        let tree = CallTree::of(&profile(&[("main;b", 3), ("main;a;c", 5), ("main", 2)]), 0, &[]);
        let flame = single(&tree, 100);
        assert_eq!(flame.names, ["total", "main", "a", "c", "b"]);
        assert_eq!((flame.total, flame.max_self), (10, 5));
        assert_eq!(
            flame.levels,
            [vec![0, 10, 0, 0], vec![0, 10, 2, 1], vec![2, 5, 0, 2, 0, 3, 3, 4], vec![2, 5, 5, 3]]
        );
    }

    #[test]
    fn small_nodes_are_one() {
        let tree = CallTree::of(&profile(&[("main;a", 1), ("main;b", 50), ("main;c", 2)]), 0, &[]);
        let flame = single(&tree, 2);
        assert_eq!(flame.names, ["total", "main", "b", "other"]);
        assert_eq!(flame.levels[2], [0, 50, 50, 2, 0, 3, 3, 3]);
    }

    #[test]
    fn a_function_called_other_keeps_what_it_calls() {
        let flame = single(&CallTree::of(&profile(&[("main;other;x", 5)]), 0, &[]), usize::MAX);
        assert_eq!(flame.names, ["total", "main", "other", "x"]);
    }

    #[test]
    fn a_call_site_is_a_prefix() {
        let profile = profile(&[("main;a;c", 5), ("main;b", 3), ("other;a", 7)]);
        let call_site = ["main".to_owned(), "a".to_owned()];
        assert_eq!(CallTree::of(&profile, 0, &call_site).nodes[0].total, 5);
        assert_eq!(CallTree::of(&profile, 0, &call_site[..1]).nodes[0].total, 8);
    }

    #[test]
    fn a_known_difference() {
        let left = CallTree::of(&profile(&[("main;a", 3), ("main;b", 1)]), 0, &[]);
        let right = CallTree::of(&profile(&[("main;b", 4), ("main;c", 2)]), 0, &[]);
        let flame = difference(&left, &right, 100);
        assert_eq!((flame.names.join(" "), flame.total), ("total main a b c".to_owned(), 10));
        let children = [0, 3, 3, 0, 0, 0, 2, 0, 1, 1, 0, 4, 4, 3, 0, 0, 0, 0, 2, 2, 4];
        assert_eq!(flame.levels, [vec![0, 4, 0, 0, 6, 0, 0], vec![0, 4, 0, 0, 6, 0, 1], children.to_vec()]);
    }
}
