//! A Graphviz graph as a set of nodes and edges, without the numbering, the colours and the sizes.

use std::collections::BTreeMap;

use crate::rows::collapse;

/// Every node by its label, every edge by the labels of its ends and its own, sorted.
///
/// pprof leaves edges in the text whose end it has dropped from the graph (it calls that end `N0`); Graphviz would
/// draw them to an empty box. They are not part of the comparison.
pub fn canonical(text: &str) -> Vec<String> {
    let statements: Vec<(String, Attributes)> = text.lines().filter_map(statement).collect();
    let nodes: BTreeMap<&str, String> = statements
        .iter()
        .filter(|(head, _)| !head.contains("->"))
        .map(|(head, attributes)| (head.as_str(), attributes.describe(&["label", "shape", "tooltip"])))
        .collect();
    let name = |id: &str| nodes.get(id.trim()).cloned();
    let mut lines: Vec<String> = statements
        .iter()
        .filter_map(|(head, attributes)| match head.split_once("->") {
            None => Some(format!("node {}", name(head)?)),
            Some((from, to)) => {
                let attributes = attributes.describe(&["label", "weight", "style", "minlen", "tooltip"]);
                Some(format!("edge {} -> {} [{attributes}]", name(from)?, name(to)?))
            }
        })
        .collect();
    lines.sort();
    lines
}

struct Attributes(BTreeMap<String, String>);

impl Attributes {
    fn describe(&self, names: &[&str]) -> String {
        let known = names.iter().filter_map(|name| self.0.get(*name).map(|value| format!("{name}={value}")));
        known.collect::<Vec<_>>().join(" ")
    }
}

/// `N1 [label="…" …]` or `N1 -> N2 [label="…" …]`; none for the lines around them.
fn statement(line: &str) -> Option<(String, Attributes)> {
    let line = line.trim();
    if !line.starts_with(['N', '"']) {
        return None;
    }
    let (head, rest) = line.split_once('[')?;
    Some((head.trim().to_owned(), Attributes(attributes(rest))))
}

/// `name = "value" name=value …`, with backslashes inside quotes.
fn attributes(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = value(after);
        found.insert(name.trim().to_owned(), collapse(&value));
        rest = next;
    }
    found
}

fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', ']']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut escaped = false;
    for (at, character) in quoted.char_indices() {
        match character {
            '"' if !escaped => return (quoted[..at].to_owned(), &quoted[at + 1..]),
            _ => escaped = character == '\\' && !escaped,
        }
    }
    (quoted.to_owned(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbering_and_colours_do_not_matter() {
        let left = "N1 [label=\"a\\n\\\"q\\\"\" shape=box color=\"#111\"]\nN2 [label=\"b\"]\nN1 -> N2 [label=\" 5\" weight=2]";
        let right = "N2 [label=\"a\\n\\\"q\\\"\" shape=box color=\"#222\"]\nN1 [label=\"b\"]\nN2 -> N1 [label=\" 5\" weight=2]";
        assert_eq!(canonical(left), canonical(right));
        assert_ne!(canonical(left), canonical(&right.replace("N2 -> N1", "N1 -> N2")));
    }
}
