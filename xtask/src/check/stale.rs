//! Documents must not mention files or, in the tables of the architecture, functions that no longer exist, and their links
//! must lead somewhere. No file may contain the marks of an unfinished merge.

use std::path::{Path, PathBuf};

use super::links;
use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

/// A word in a document that starts with one of these is a path in the repository.
const FOLDERS: &[&str] = &[
    "crates/",
    "xtask/",
    "tests/",
    "testdata/",
    "bench/",
    "fuzz/",
    "docs/",
    "examples/",
    "deploy/",
    "ui/",
    "recipes/",
    ".ci/",
];

/// Looks at every tracked Markdown file.
pub(super) fn check(tally: &mut Tally) -> Outcome {
    let listed = run::output(
        std::process::Command::new("git").args(["ls-files", "*.md"]).current_dir(workspace::root()),
    );
    let Ok(listed) = listed else {
        tally.skip("documents", "SKIP: not a git checkout, so the documents are not checked");
        return Ok(());
    };
    let documents: Vec<PathBuf> = listed.lines().map(|name| workspace::root().join(name)).collect();
    let mut stale = Vec::new();
    for document in documents.iter().filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(document)
            .map_err(|error| Failure::failed(format!("{}: {error}", document.display())))?;
        for path in mentioned_paths(&text).filter(|path| !exists(document, path)) {
            let document = document.strip_prefix(workspace::root()).unwrap_or(document);
            stale.push(format!("{} mentions {path}, which does not exist", document.display()));
        }
        for target in links::broken(document, &text) {
            let document = document.strip_prefix(workspace::root()).unwrap_or(document);
            stale.push(format!("{} links to {target}, which leads nowhere", document.display()));
        }
        for (path, function) in functions(&text).filter(|(path, function)| !has_function(path, function)) {
            stale.push(format!("{path} has no function {function}, which {} names", document.display()));
        }
    }
    stale.extend(unfinished_merges());
    if stale.is_empty() {
        println!("   documents: {} checked, every path and heading they mention exists", documents.len());
        return Ok(());
    }
    Err(Failure::failed(stale.join("\n       ")))
}

/// Files with the lines that git puts around two versions of a text.
fn unfinished_merges() -> Vec<String> {
    let mut grep = std::process::Command::new("git");
    grep.args(["grep", "-lE", "^(<{7}|>{7}) "]).current_dir(workspace::root());
    // It fails when it finds nothing.
    let found = run::output(&mut grep).unwrap_or_default();
    found.lines().map(|name| format!("{name} has the marks of an unfinished merge")).collect()
}

/// Words between back-quotes or link brackets that look like paths of ours. Patterns and commands are left out.
fn mentioned_paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(['`', '(', ')', '"', ' ', '\n', '\t', ',', ';'])
        .map(|word| word.trim_end_matches(['.', ':', '#']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)) || is_in_a_crate(word))
        .filter(|word| !word.contains(['*', '<', '{', '$', '…', '|', '=']))
}

/// Returns whether this is a path below a crate's folder, without `crates/`: it does not exist from the root.
fn is_in_a_crate(word: &str) -> bool {
    word.split_once("/src/").is_some_and(|(name, _)| {
        !name.contains('/') && workspace::root().join("crates").join(name).join("Cargo.toml").is_file()
    })
}

/// The rows of tables that name a file and a function of it: "| `path` | `function` | …".
fn functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.splitn(3, " | ");
        let (path, function) = (cells.next()?.strip_suffix('`')?, cells.next()?);
        let function = function.strip_prefix('`')?.strip_suffix('`')?;
        path.ends_with(".rs").then_some((path, function))
    })
}

fn has_function(path: &str, function: &str) -> bool {
    let source = std::fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
    [format!("fn {function}("), format!("fn {function}<")].iter().any(|start| source.contains(start))
}

/// A mention counts from the root, and from the document's own folder.
fn exists(document: &Path, path: &str) -> bool {
    let path = path.split('#').next().unwrap_or(path);
    let beside = document.parent().map(|folder| folder.join(path));
    workspace::root().join(path).exists() || beside.is_some_and(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_tables() {
        let row = "| `xtask/src/check/stale.rs` | `has_function` | looks |";
        let found: Vec<_> = functions(row).collect();
        assert_eq!(found, [("xtask/src/check/stale.rs", "has_function")]);
        assert!(has_function(found[0].0, found[0].1));
        assert!(!has_function(found[0].0, "has_no_such_function"));
    }

    #[test]
    fn paths_are_found_in_quotes_and_links() {
        let text = "See `crates/cli`, [docs](docs/benchmarks.md#open) and `crates/*`; not cratesio/x.";
        let paths: Vec<&str> = mentioned_paths(text).collect();
        assert_eq!(paths, ["crates/cli", "docs/benchmarks.md#open"]);
        let short: Vec<&str> =
            mentioned_paths("`record/src/gone.rs`, `registry/src/x`, `src/main.rs`").collect();
        assert_eq!(short, ["record/src/gone.rs"]);
    }
}
