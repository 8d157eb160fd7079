//! Checks that documents do not mention files that no longer exist.

use std::path::{Path, PathBuf};

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
    ".ci/",
];

/// Checks every tracked Markdown file.
pub(super) fn check(tally: &mut Tally) -> Outcome {
    let listed = run::output(
        std::process::Command::new("git").args(["ls-files", "*.md"]).current_dir(workspace::root()),
    );
    let Ok(listed) = listed else {
        tally.skip("documents", "SKIP: not a git checkout, so the documents are not looked at");
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
    }
    if stale.is_empty() {
        println!("   documents: {} looked at, every path they mention exists", documents.len());
        return Ok(());
    }
    Err(Failure::failed(stale.join("\n       ")))
}

/// Returns the words in back-quotes or link brackets that look like our paths. Patterns and commands are left out.
fn mentioned_paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(['`', '(', ')', '"', ' ', '\n', '\t', ',', ';'])
        .map(|word| word.trim_end_matches(['.', ':', '#']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains(['*', '<', '{', '$', '…', '|', '=']))
}

/// Resolves a path from the root, and from the document's own folder.
fn exists(document: &Path, path: &str) -> bool {
    let path = path.split('#').next().unwrap_or(path);
    let beside = document.parent().map(|folder| folder.join(path));
    workspace::root().join(path).exists() || beside.is_some_and(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_quotes_and_links() {
        let text = "See `crates/cli`, [docs](docs/benchmarks.md#open) and `crates/*`; not cratesio/x.";
        let paths: Vec<&str> = mentioned_paths(text).collect();
        assert_eq!(paths, ["crates/cli", "docs/benchmarks.md#open"]);
    }
}
