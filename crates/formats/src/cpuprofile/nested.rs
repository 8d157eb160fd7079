//! The tree as V8 wrote it until 2016, where each node contains its children. Stacks are deeper than a JSON parser
//! may recurse, so the nodes are separated first, and each is parsed without its children.

use flamelet_profile::budget::ALLOCATION;
use flamelet_profile::{Budget, Result};
use serde::Deserialize;

use super::{CallFrame, CpuProfileFile, ProfileNode};
use crate::json;

/// A node without its children.
#[derive(Deserialize)]
pub(super) struct NestedNode {
    id: u64,
    #[serde(flatten)]
    frame: CallFrame,
    #[serde(rename = "hitCount", default)]
    hits: i64,
}

impl NestedNode {
    fn below(self, parent: Option<u64>) -> ProfileNode {
        ProfileNode { id: self.id, frame: self.frame, hits: self.hits, children: Vec::new(), parent }
    }
}

/// Returns whether the tree of the file is nested.
pub(super) fn recognise(text: &[u8]) -> bool {
    json::Keys::of(text).is_some_and(|keys| keys.has("head"))
}

/// Reads the file with all nodes of the tree.
pub(super) fn parse(text: &[u8], budget: &Budget) -> Result<CpuProfileFile> {
    let parts = NodeParts::of(text, budget);
    budget.check()?;
    let mut file: CpuProfileFile = json::parse(&parts.texts[0], "cpuprofile", budget)?;
    let Some(head) = file.head.take() else { return Ok(file) };
    file.nodes = vec![head.below(None)];
    for (text, &parent) in parts.texts.iter().zip(&parts.parents).skip(1) {
        let before = budget.used();
        let node: NestedNode = json::parse(text, "cpuprofile", budget)?;
        // Most of the charge is for the parser's temporary memory; only the node and its text stay.
        budget.refund(budget.used() - before);
        budget.charge(size_of::<ProfileNode>() + text.len())?;
        // Part 0 is the file, whose node is the head; parents come before their children.
        let parent = file.nodes[parent].id;
        file.nodes.push(node.below(Some(parent)));
    }
    Ok(file)
}

/// What a part costs in addition to its text.
const PART: usize = size_of::<(Vec<u8>, usize, usize, OpenBracket)>() + ALLOCATION;

enum OpenBracket {
    Object { is_part: bool },
    Array { is_children: bool, has_parts: bool },
}

/// A text in which each object in an array called `children` has become a separate part.
pub(super) struct NodeParts {
    pub(super) texts: Vec<Vec<u8>>,
    /// The part that each was taken from.
    pub(super) parents: Vec<usize>,
    /// The open parts, innermost last; the first one stays open.
    inside: Vec<usize>,
    open: Vec<OpenBracket>,
}

impl NodeParts {
    pub(super) fn of(text: &[u8], budget: &Budget) -> Self {
        budget.has_room(text.len());
        let mut parts = Self { texts: vec![Vec::new()], parents: vec![0], inside: vec![0], open: Vec::new() };
        let (mut at, mut string, mut key) = (0, &b""[..], &b""[..]);
        while let Some(&byte) = text.get(at) {
            if matches!(byte, b'{' | b'[') && !budget.has_room(PART) {
                break;
            }
            let mut end = at + 1;
            match byte {
                b'"' => {
                    end = json::string_end(text, at + 1).unwrap_or(text.len());
                    string = &text[at..end];
                }
                b':' => key = string,
                b'{' | b'[' => parts.begin(byte, std::mem::take(&mut key) == b"\"children\""),
                _ => {}
            }
            parts.push(byte, &text[at..end]);
            at = end;
        }
        parts
    }

    fn begin(&mut self, byte: u8, is_children: bool) {
        if byte == b'[' {
            return self.open.push(OpenBracket::Array { is_children, has_parts: false });
        }
        let is_part = match self.open.last_mut() {
            Some(OpenBracket::Array { is_children: true, has_parts }) => {
                *has_parts = true;
                true
            }
            _ => false,
        };
        if is_part {
            self.parents.push(self.innermost());
            self.inside.push(self.texts.len());
            self.texts.push(Vec::new());
        }
        self.open.push(OpenBracket::Object { is_part });
    }

    fn push(&mut self, byte: u8, piece: &[u8]) {
        // The commas between parts that were taken out are dropped.
        if byte == b',' && matches!(self.open.last(), Some(OpenBracket::Array { has_parts: true, .. })) {
            return;
        }
        let innermost = self.innermost();
        self.texts[innermost].extend_from_slice(piece);
        if matches!(byte, b'}' | b']')
            && let Some(OpenBracket::Object { is_part: true }) = self.open.pop()
        {
            self.inside.pop();
        }
    }

    fn innermost(&self) -> usize {
        self.inside.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_text() {
        let text = br#"{"head":{"id":1,"children":[{"x":[{"y":"]}"}],"children":[{"id":3}], "id":2},{"id":4}]},"a":[1,2]}"#;
        let budget = Budget::new(crate::Limits::default());
        let parts = NodeParts::of(text, &budget);
        let texts: Vec<_> = parts.texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
        let expected = [
            r#"{"head":{"id":1,"children":[]},"a":[1,2]}"#,
            r#"{"x":[{"y":"]}"}],"children":[], "id":2}"#,
            r#"{"id":3}"#,
            r#"{"id":4}"#,
        ];
        assert_eq!(texts, expected);
        assert_eq!(parts.parents, [0, 0, 1, 0]);
        for cut in 0..text.len() {
            NodeParts::of(&text[..cut], &budget);
        }
        NodeParts::of(b"]}]}{[}]", &budget);
    }
}
