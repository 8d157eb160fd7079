//! Checks that the recipes for other HTTP servers compile, and that `flamelet::serve` brings none of them in.

use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

/// What a service with `flamelet::serve` and without a server of its own must not build.
const FOREIGN: &[&str] = &["axum", "hyper", "tokio", "tracing"];

pub(super) fn check(_: &mut Tally) -> Outcome {
    let recipes = workspace::root().join("recipes/Cargo.toml");
    let mut check = workspace::cargo();
    check.args(["check", "--quiet", "--locked", "--workspace", "--manifest-path"]).arg(recipes);
    check.arg("--target-dir").arg(workspace::target().join("recipes"));
    run::step("recipes", &mut check)?;

    let mut tree = workspace::cargo();
    tree.args(["tree", "--locked", "--package", "worker", "--edges", "normal", "--prefix", "none"]);
    let tree = run::output(tree.args(["--format", "{p}"]))?;
    match foreign(&tree).as_slice() {
        [] => Ok(()),
        found => Err(Failure::failed(format!("flamelet::serve brings in {}", found.join(", ")))),
    }
}

fn foreign(tree: &str) -> Vec<&str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<&str> = names.filter(|name| FOREIGN.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_in_the_tree_is_found() {
        assert!(foreign("worker v0.1.0\nhttp v1.3.1\ntower-service v0.3.3\n").is_empty());
        assert_eq!(
            foreign("worker v0.1.0\ntokio v1.48.0\naxum v0.8.9\ntokio v1.48.0 (*)\n"),
            ["axum", "tokio"]
        );
    }
}
