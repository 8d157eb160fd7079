//! Finds the folded boxes that contain the frames of a search.

use std::ops::Deref;

use flamelet_profile::{LocationId, Profile};

use super::{FlameTree, NodeId, start_of};
use crate::flame::cursor::StackCursor;

impl<P: Deref<Target = Profile>> FlameTree<P> {
    /// Returns which of `nodes`, as their indexes, are chains with a frame for which `wanted` (by
    /// [`NameId::index`](crate::stacks::NameId::index)) is true.
    pub fn holding(&self, nodes: &[NodeId], wanted: &[bool]) -> Vec<u32> {
        let ids = (0..self.profile.locations().len()).map(LocationId::from_index);
        let locations: Vec<bool> =
            ids.map(|id| self.frames.of(id).any(|name| wanted[name.index()])).collect();
        let chains = nodes.iter().enumerate().filter(|(_, node)| self.chain(**node).is_some());
        let holding = chains.filter(|(_, node)| self.holds(**node, &locations, wanted));
        holding.map(|(row, _)| row as u32).collect()
    }

    fn holds(&self, node: NodeId, locations: &[bool], wanted: &[bool]) -> bool {
        let found = &self.nodes[node.index()];
        let paths = self.paths_to(node);
        self.entries[found.start as usize..found.end as usize].iter().any(|entry| {
            let stack = self.profile.stack(entry.stack());
            // Most stacks have no such frame at all.
            stack.iter().any(|location| locations[location.index()]) && self.chain_has(entry, &paths, wanted)
        })
    }

    /// Returns the paths of the nodes between the root and the parent of `node`, both included.
    fn paths_to(&self, node: NodeId) -> Vec<u64> {
        let above = std::iter::successors(self.parent(node), |&node| self.parent(node));
        let mut paths: Vec<u64> = above.map(|node| self.nodes[node.index()].path).collect();
        paths.reverse();
        paths
    }

    /// Walks along a stack again, and looks into the chain that follows the nodes of `paths`.
    fn chain_has(&self, entry: &StackCursor, paths: &[u64], wanted: &[bool]) -> bool {
        let Some(start) =
            start_of(&self.frames, self.profile.stack(entry.stack()), self.pivot, self.reader.direction())
        else {
            return false;
        };
        let mut cursor = entry.restarted(start);
        let (profile, frames) = (&*self.profile, &*self.frames);
        for &path in &paths[..paths.len().saturating_sub(1)] {
            self.reader.step(profile, frames, &mut cursor, path);
        }
        self.reader.chain_has(profile, frames, &mut cursor, wanted)
    }
}
