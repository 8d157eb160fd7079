//! Checks which crate may use which: dependencies point down only.

use serde_json::Value;

use crate::{Failure, Outcome};

/// Every crate and our crates that it may name in its manifest. Dev-dependencies are not restricted.
const ALLOWED: &[(&str, &[&str])] = &[
    ("flamelet-profile", &[]),
    ("flamelet-unwind", &[]),
    ("flamelet-symbol", &["flamelet-profile"]),
    ("flamelet-formats", &["flamelet-profile", "flamelet-unwind"]),
    ("flamelet-store", &["flamelet-profile"]),
    ("flamelet-remote", &["flamelet-profile"]),
    (
        "flamelet-collect",
        &[
            "flamelet-profile",
            "flamelet-store",
            "flamelet-remote",
            "flamelet-symbol",
            "flamelet-report",
            "flamelet-view",
        ],
    ),
    ("flamelet-report", &["flamelet-profile", "flamelet-symbol"]),
    ("flamelet-capture", &["flamelet-profile", "flamelet-unwind"]),
    ("flamelet-embed", &[]),
    ("flamelet-preload-ledger", &[]),
    ("flamelet-preload", &["flamelet-preload-ledger", "flamelet-unwind"]),
    (
        "flamelet-preload-cpu",
        &["flamelet-capture", "flamelet-preload-ledger", "flamelet-profile", "flamelet-unwind"],
    ),
    (
        "flamelet-record",
        &[
            "flamelet-profile",
            "flamelet-unwind",
            "flamelet-symbol",
            "flamelet-formats",
            "flamelet-preload-ledger",
        ],
    ),
    ("flamelet-view", &["flamelet-report"]),
    (
        "flamelet",
        &[
            "flamelet-capture",
            "flamelet-symbol",
            "flamelet-report",
            "flamelet-store",
            "flamelet-remote",
            "flamelet-view",
        ],
    ),
    (
        "flamelet-cli",
        &[
            "flamelet-profile",
            "flamelet-unwind",
            "flamelet-symbol",
            "flamelet-formats",
            "flamelet-report",
            "flamelet-capture",
            "flamelet-record",
            "flamelet-store",
            "flamelet-remote",
            "flamelet-view",
            "flamelet-collect",
            "flamelet",
            // Embedded, not linked.
            "flamelet-embed",
            "flamelet-preload",
            "flamelet-preload-cpu",
        ],
    ),
    ("xtask", &[]),
    ("flamelet-test-support", &[]),
    // One of its programs is a service like those that users write.
    ("flamelet-tests", &["flamelet", "flamelet-test-support"]),
];

/// Fails if there is any edge that is not in the table, and names all of them.
pub(super) fn check() -> Outcome {
    let packages = super::metadata()?;
    let wrong = wrong_edges(&packages);
    if wrong.is_empty() {
        println!("   crate edges: {} crates, all edges are allowed", packages.len());
        return Ok(());
    }
    for line in &wrong {
        eprintln!("   {line}");
    }
    Err(Failure::failed("crate edges: xtask/src/check/edges.rs lists what each crate may use"))
}

fn wrong_edges(packages: &[Value]) -> Vec<String> {
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let allowed = ALLOWED.iter().find(|(krate, _)| *krate == name).map(|(_, allowed)| *allowed);
        let Some(allowed) = allowed else {
            // Examples use what they demonstrate; nothing depends on them.
            if !package["manifest_path"].as_str().is_some_and(|path| path.contains("/examples/")) {
                wrong.push(format!("{name} is not in the table of crates"));
            }
            continue;
        };
        for used in dependencies(package).filter(|used| ours.contains(used) && !allowed.contains(used)) {
            wrong.push(format!("{name} must not use {used}"));
        }
    }
    wrong
}

/// Returns the packages under `[dependencies]` and `[build-dependencies]`.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies
        .iter()
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .filter_map(|dependency| dependency["name"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &str, kind: Option<&str>) -> Value {
        let path = format!("/repo/crates/{name}/Cargo.toml");
        json!({"name": name, "manifest_path": path, "dependencies": [{"name": uses, "kind": kind}]})
    }

    #[test]
    fn an_arrow_up_is_named() {
        let packages = [
            package("flamelet-profile", "flamelet-report", None),
            package("flamelet-report", "flamelet-profile", None),
        ];
        assert_eq!(wrong_edges(&packages), ["flamelet-profile must not use flamelet-report"]);
    }

    #[test]
    fn dev_dependencies_and_other_peoples_crates_are_free() {
        let packages = [
            package("flamelet-profile", "flamelet-report", Some("dev")),
            package("flamelet-report", "regex", None),
        ];
        assert!(wrong_edges(&packages).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_named() {
        let packages = [package("flamelet-extra", "regex", None)];
        assert_eq!(wrong_edges(&packages), ["flamelet-extra is not in the table of crates"]);
    }
}
