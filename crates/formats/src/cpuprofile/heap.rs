//! V8's `.heapprofile`: a nested tree of functions, each with the bytes that it allocated and that are still alive.

use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result};
use serde::Deserialize;

use super::CallFrame;
use super::nested::NodeParts;
use crate::assembly::Assembly;
use crate::number::to_count;
use crate::{Error, json};

#[derive(Deserialize)]
struct HeapFile {
    head: HeapNode,
}

/// A node, without its children.
#[derive(Deserialize)]
struct HeapNode {
    #[serde(rename = "callFrame")]
    frame: CallFrame,
    #[serde(rename = "selfSize", default)]
    size: f64,
}

/// What a node costs.
const NODE: usize = size_of::<(LocationId, usize)>();

/// Returns whether the file is a heap profile: its nodes have sizes.
pub(super) fn recognise(text: &[u8]) -> bool {
    json::Keys::of(text).is_some_and(|keys| keys.has("head") && keys.mentions("\"selfSize\""))
}

/// Reads a heap profile.
pub(super) fn read(text: &[u8], budget: &Budget) -> Result<Profile> {
    let parts = NodeParts::of(text, budget);
    budget.check()?;
    let mut assembly = Assembly::new(false, budget);
    let space = assembly.column("inuse_space", "bytes");
    // Part 0 is the file, whose node is the head; parents come before their children.
    let file: HeapFile = json::parse(&parts.texts[0], "heapprofile", budget)?;
    let mut nodes = vec![(location(&file.head, &mut assembly), 0)];
    let mut stack = Vec::new();
    for (text, &parent) in parts.texts.iter().zip(&parts.parents).skip(1) {
        let before = budget.used();
        let node: HeapNode = json::parse(text, "heapprofile", budget)?;
        budget.refund(budget.used() - before);
        budget.charge(NODE)?;
        nodes.push((location(&node, &mut assembly), parent));
        if node.size > 0.0 {
            walk(&nodes, &mut stack, budget)?;
            let row = assembly.row(&stack, LabelSetId::EMPTY);
            assembly.check_room()?;
            assembly.add(row, space, to_count(node.size));
        }
    }
    if assembly.row_count() == 0 {
        return Err(Error::new(ErrorKind::Truncated, "the heap profile has no allocation"));
    }
    assembly.finish()
}

fn location(node: &HeapNode, assembly: &mut Assembly) -> LocationId {
    let frame = &node.frame;
    let name = if frame.name.is_empty() { "(anonymous)" } else { &frame.name };
    assembly.frame(name, &frame.url, frame.line.saturating_add(1).max(0))
}

/// Collects the stack of the last node, leaf first, without the root, which is only a placeholder.
fn walk(nodes: &[(LocationId, usize)], stack: &mut Vec<LocationId>, budget: &Budget) -> Result<()> {
    stack.clear();
    let mut at = nodes.len() - 1;
    while at > 0 {
        budget.work(1)?;
        let (location, parent) = nodes[at];
        stack.push(location);
        at = parent;
    }
    Ok(())
}
