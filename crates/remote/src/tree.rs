//! A profile as a tree of function names, as Pyroscope has it.

use std::collections::HashMap;

use flamelet_profile::{LocationId, Profile, StackId};
use rustc_hash::FxBuildHasher;

/// A node: a function in the context of its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallNode {
    pub(crate) name: u32,
    pub(crate) total: i64,
    pub(crate) own: i64,
    /// Sorted by name.
    pub(crate) children: Vec<u32>,
}

/// A tree. Node 0 is the root, which has no function.
#[derive(Clone, Debug)]
pub(crate) struct CallTree {
    pub(crate) nodes: Vec<CallNode>,
    pub(crate) names: Vec<String>,
    numbers: HashMap<String, u32, FxBuildHasher>,
    places: HashMap<(u32, u32), u32, FxBuildHasher>,
}

impl Default for CallTree {
    fn default() -> Self {
        let names = vec!["total".to_owned()];
        Self {
            nodes: vec![CallNode::default()],
            names,
            numbers: HashMap::default(),
            places: HashMap::default(),
        }
    }
}

impl CallTree {
    /// Returns the tree of one value of a profile, of the stacks that begin with `call_site` (outermost first).
    pub(crate) fn of(profile: &Profile, value: usize, call_site: &[String]) -> Self {
        let mut tree = Self::default();
        let frames = tree.all_frames(profile);
        let wanted: Vec<u32> = call_site.iter().map(|name| tree.name(name)).collect();
        // Samples that differ only in their labels are one.
        let mut amounts = vec![0i64; profile.stack_count()];
        for sample in profile.samples() {
            let amount = &mut amounts[sample.stack.index()];
            *amount = amount.saturating_add(sample.values.get(value).copied().unwrap_or(0));
        }
        for (at, amount) in amounts.into_iter().enumerate().filter(|(_, amount)| *amount != 0) {
            let names = names_of(profile, StackId::from_index(at), &frames);
            if begins_with(names.clone(), &wanted) {
                tree.add(names, amount);
            }
        }
        tree.sort();
        tree
    }

    /// Returns, for each sample, whether its stack begins with `call_site`.
    pub(crate) fn rows_below(profile: &Profile, call_site: &[String]) -> Vec<bool> {
        let mut names = Self::default();
        let frames = names.all_frames(profile);
        let wanted: Vec<u32> = call_site.iter().map(|name| names.name(name)).collect();
        let is_below = |stack: StackId| begins_with(names_of(profile, stack, &frames), &wanted);
        profile.samples().map(|sample| is_below(sample.stack)).collect()
    }

    /// Returns the functions at each location.
    fn all_frames(&mut self, profile: &Profile) -> Vec<Vec<u32>> {
        let locations = 0..profile.locations().len();
        locations.map(|at| self.frames(profile, LocationId::from_index(at))).collect()
    }

    /// Returns the functions at a location, outermost first.
    fn frames(&mut self, profile: &Profile, id: LocationId) -> Vec<u32> {
        let functions = profile.lines(id).iter().rev().filter_map(|line| line.function);
        let names: Vec<u32> =
            functions.map(|id| self.name(profile.string(profile.function(id).name))).collect();
        if !names.is_empty() {
            return names;
        }
        let location = profile.location(id);
        let file = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
        let file = file.rsplit('/').next().unwrap_or_default();
        vec![self.name(format!("{file} 0x{:x}", location.address).trim_start())]
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn add(&mut self, names: impl Iterator<Item = u32>, amount: i64) {
        let mut at = 0;
        self.count(at, amount);
        for name in names {
            let next = self.nodes.len() as u32;
            let child = *self.places.entry((at, name)).or_insert(next);
            if child == next {
                self.nodes.push(CallNode { name, ..CallNode::default() });
                self.nodes[at as usize].children.push(child);
            }
            at = child;
            self.count(at, amount);
        }
        let own = &mut self.nodes[at as usize].own;
        *own = own.saturating_add(amount);
    }

    fn count(&mut self, node: u32, amount: i64) {
        let total = &mut self.nodes[node as usize].total;
        *total = total.saturating_add(amount);
    }

    fn sort(&mut self) {
        let keys: Vec<&str> = self.nodes.iter().map(|node| &*self.names[node.name as usize]).collect();
        let mut children: Vec<Vec<u32>> = self.nodes.iter().map(|node| node.children.clone()).collect();
        for list in &mut children {
            list.sort_by_key(|&child| keys[child as usize]);
        }
        for (node, list) in self.nodes.iter_mut().zip(children) {
            node.children = list;
        }
    }

    /// Returns the tree with about `most` nodes, the small ones put together as children named `other`.
    pub(crate) fn truncated(&self, most: usize, other: &str) -> Self {
        let smallest = self.smallest_shown(most);
        let mut tree =
            Self { nodes: vec![self.nodes[0].clone()], names: self.names.clone(), ..Self::default() };
        tree.numbers.clone_from(&self.numbers);
        let other = tree.name(other);
        // Nodes of the new tree, whose children are still those of this one.
        let mut open = vec![0u32];
        while let Some(at) = open.pop() {
            let children = std::mem::take(&mut tree.nodes[at as usize].children);
            let (mut kept, mut rest) = (Vec::new(), CallNode { name: other, ..CallNode::default() });
            for child in children.iter().map(|&child| &self.nodes[child as usize]) {
                // What was put together before is put together again; a function may have the same name.
                if child.total >= smallest && (child.name != other || !child.children.is_empty()) {
                    kept.push(tree.nodes.len() as u32);
                    tree.nodes.push(child.clone());
                } else {
                    rest.total = rest.total.saturating_add(child.total);
                }
            }
            open.extend_from_slice(&kept);
            if rest.total != 0 {
                rest.own = rest.total;
                kept.push(tree.nodes.len() as u32);
                tree.nodes.push(rest);
            }
            tree.nodes[at as usize].children = kept;
        }
        tree
    }

    /// Returns the total below which nodes are left out, so that about `most` are left, the root not counted.
    pub(crate) fn smallest_shown(&self, most: usize) -> i64 {
        let mut totals: Vec<i64> = self.nodes.iter().skip(1).map(|node| node.total).collect();
        if totals.len() <= most {
            return 0;
        }
        totals.sort_unstable_by(|a, b| b.cmp(a));
        totals.get(most.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// Returns the names of a stack, outermost first, from those of each location.
fn names_of<'a>(
    profile: &'a Profile,
    stack: StackId,
    frames: &'a [Vec<u32>],
) -> impl Iterator<Item = u32> + Clone + 'a {
    let locations = profile.stack(stack).iter().rev();
    locations.flat_map(|location| frames[location.index()].iter().copied())
}

fn begins_with(names: impl Iterator<Item = u32>, wanted: &[u32]) -> bool {
    names.take(wanted.len()).eq(wanted.iter().copied())
}
