//! The layout: which boxes of a tree are wide enough to be visible.

use std::ops::Deref;

use flamelet_profile::Profile;

use super::tree::{FlameTree, FoldedChain, NodeId};
use crate::stacks::{NameId, OwnerId, Value};

/// The visible part of a flame graph.
#[derive(Clone, Copy, Debug)]
pub struct Viewport {
    /// The box that fills the width.
    pub root: NodeId,
    /// How many pixels wide the picture is.
    pub width: f64,
    /// Boxes narrower than this many pixels are left out.
    pub min_pixels: f64,
    /// The maximum number of boxes; if there are more, narrower boxes are left out.
    pub max_boxes: usize,
}

impl Viewport {
    /// Shows the whole graph, `width` pixels wide, without boxes narrower than half a pixel.
    pub fn of_width(width: f64) -> Self {
        Self { root: NodeId::ROOT, width, min_pixels: 0.5, max_boxes: 20_000 }
    }

    /// Returns the same viewport with another root.
    pub fn zoomed(self, root: NodeId) -> Self {
        Self { root, ..self }
    }

    /// Returns the least weight of a box that is drawn.
    fn cutoff(&self, weight: u64) -> u64 {
        let share = self.min_pixels / self.width.max(1.0);
        ((weight as f64 * share).ceil() as u64).max(1)
    }
}

/// One box of a picture.
#[derive(Clone, Copy, Debug)]
pub struct FlameBox {
    /// The node it shows.
    pub node: NodeId,
    /// Its parent, as an index into [`Boxes::boxes`].
    pub parent: Option<u32>,
    /// Its name; `None` for the root of all stacks and for a chain.
    pub name: Option<NameId>,
    /// Whose code it is; `None` for the root of all stacks.
    pub owner: Option<OwnerId>,
    /// The chain of frames that it stands for, if it is one.
    pub chain: Option<FoldedChain>,
    /// How many ancestors it has.
    pub depth: u32,
    /// Where it starts, in weight from the left edge of the root of all stacks.
    pub x: u64,
    /// Its value; [`Value::weight`] is its width.
    pub value: Value,
    /// The value of the stacks that end in it.
    pub own: Value,
}

/// The boxes of a [`Viewport`], each after its parent, siblings from left to right.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// The boxes: first the ancestors of the viewport's root, then the root and its descendants.
    pub boxes: Vec<FlameBox>,
    /// The index in `boxes` of the viewport's root.
    pub zoom: usize,
    /// The least weight of a box in this layout.
    pub cutoff: u64,
    /// How many narrower boxes were skipped. Their descendants are not counted.
    pub narrower: u64,
}

impl<P: Deref<Target = Profile>> FlameTree<P> {
    /// Returns the boxes that are visible in `viewport`.
    pub fn layout(&mut self, viewport: &Viewport) -> Boxes {
        let mut cutoff = viewport.cutoff(self.value(viewport.root).weight());
        loop {
            match self.boxes_over(viewport.root, cutoff, viewport.max_boxes) {
                Some(boxes) => return boxes,
                None => cutoff = cutoff.saturating_add(cutoff / 2 + 1),
            }
        }
    }

    /// Returns as many boxes of the whole graph, widest first, as `max_boxes` allows; for a file that is viewed
    /// without the profile.
    pub fn layout_most(&mut self, max_boxes: usize) -> Boxes {
        let total = self.value(NodeId::ROOT).weight();
        let mut cutoff = Viewport { max_boxes, ..Viewport::of_width(4000.0) }.cutoff(total);
        let mut best = self.layout(&Viewport { max_boxes, ..Viewport::of_width(4000.0) });
        // A cutoff four times finer gives at most about four times more boxes: stop before work is wasted.
        while best.narrower > 0 && best.boxes.len() * 3 < max_boxes && cutoff > 1 {
            cutoff = (cutoff / 4).max(1);
            match self.boxes_over(NodeId::ROOT, cutoff, max_boxes) {
                Some(finer) => best = finer,
                None => break,
            }
        }
        best
    }

    /// Returns all boxes of at least `cutoff`, or `None` if there are more than `max_boxes`.
    fn boxes_over(&mut self, root: NodeId, cutoff: u64, max_boxes: usize) -> Option<Boxes> {
        let mut boxes = Vec::new();
        let mut path = Vec::new();
        let mut above = self.parent(root);
        while let Some(node) = above {
            path.push(node);
            above = self.parent(node);
        }
        for node in path.into_iter().rev() {
            let parent = boxes.len().checked_sub(1).map(|at| at as u32);
            boxes.push(self.flame_box(node, parent));
        }
        let zoom = boxes.len();
        let (mut narrower, mut waiting) = (0, vec![(root, zoom.checked_sub(1).map(|at| at as u32))]);
        while let Some((node, parent)) = waiting.pop() {
            if boxes.len() >= max_boxes.max(zoom + 1) {
                return None;
            }
            let children = self.children(node);
            let at = boxes.len() as u32;
            boxes.push(self.flame_box(node, parent));
            let count = children.len();
            let first = waiting.len();
            waiting.extend(
                children
                    .take_while(|&child| self.value(child).weight() >= cutoff)
                    .map(|child| (child, Some(at))),
            );
            narrower += (count - (waiting.len() - first)) as u64;
            waiting[first..].reverse();
        }
        Some(Boxes { boxes, zoom, cutoff, narrower })
    }

    fn flame_box(&self, node: NodeId, parent: Option<u32>) -> FlameBox {
        FlameBox {
            node,
            parent,
            name: self.name(node),
            owner: self.owner(node),
            chain: self.chain(node),
            depth: self.depth(node),
            x: self.x(node),
            value: self.value(node),
            own: self.own(node),
        }
    }
}
