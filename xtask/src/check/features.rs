//! Checks that features are additive: each crate compiles with none, with each alone, and with all.

use serde_json::Value;

use crate::{Outcome, run, workspace};

/// Checks every combination, crate by crate.
pub(super) fn check() -> Outcome {
    for package in super::metadata()? {
        let name = package["name"].as_str().unwrap_or_default();
        for arguments in combinations(&feature_names(&package)) {
            let title = format!("{name} {}", arguments.join(" "));
            let mut command = workspace::cargo();
            command.args(["check", "--quiet", "--package", name]).args(&arguments);
            run::step(&title, &mut command)?;
        }
    }
    Ok(())
}

fn feature_names(package: &Value) -> Vec<&str> {
    let features = package["features"].as_object();
    let names = features.into_iter().flat_map(|features| features.keys());
    names.map(String::as_str).filter(|name| *name != "default").collect()
}

/// Returns the arguments of each run; none for a crate without features, which the other checks compile anyway.
fn combinations(features: &[&str]) -> Vec<Vec<String>> {
    if features.is_empty() {
        return Vec::new();
    }
    let none = vec!["--no-default-features".to_owned()];
    let each = features.iter().map(|feature| {
        vec!["--no-default-features".to_owned(), "--features".to_owned(), feature.to_string()]
    });
    let all = vec!["--all-features".to_owned()];
    std::iter::once(none).chain(each).chain([all]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_each_and_all() {
        let runs: Vec<String> = combinations(&["a", "b"]).iter().map(|run| run.join(" ")).collect();
        assert_eq!(
            runs,
            [
                "--no-default-features",
                "--no-default-features --features a",
                "--no-default-features --features b",
                "--all-features"
            ]
        );
        assert!(combinations(&[]).is_empty());
    }

    #[test]
    fn the_library_documents_every_feature() {
        let packages = super::super::metadata().expect("cargo lists the packages");
        let library = packages.iter().find(|package| package["name"] == "flamelet").expect("the library");
        let source = workspace::root().join("crates/flamelet/src/lib.rs");
        let source = std::fs::read_to_string(source).expect("the library");
        let documents: String = source.lines().filter(|line| line.starts_with("//!")).collect();
        let is_missing = |name: &&str| !documents.contains(&format!("`{name}`"));
        let missing: Vec<&str> = feature_names(library).into_iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "crates/flamelet/src/lib.rs does not document {missing:?}");
    }
}
