//! Checks licences and versions of all dependencies against the lists in `deny.toml`.
//!
//! `cargo deny` reports more, but building it takes longer than all the rest of this.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, workspace};

pub(super) fn check(_: &mut Tally) -> Outcome {
    let rules = std::fs::read_to_string(workspace::root().join("deny.toml"))
        .map_err(|error| Failure::failed(format!("deny.toml: {error}")))?;
    let text = run::output(workspace::cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| Failure::failed(format!("cargo metadata: {error}")))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let wrong =
        [unlicensed(packages, &strings(&rules, "allow")), doubled(packages, &strings(&rules, "skip"))];
    let wrong = wrong.concat();
    if !wrong.is_empty() {
        return Err(Failure::failed(wrong.join("\n       ")));
    }
    println!("   {} packages", packages.len());
    match run::which("cargo-deny") {
        Some(_) => {
            run::step("cargo deny", workspace::cargo().args(["deny", "check", "bans", "licenses", "sources"]))
        }
        None => Ok(()),
    }
}

/// Returns the strings of the list `name` in a TOML file; for tables, the first string of each.
fn strings(text: &str, name: &str) -> Vec<String> {
    let start = format!("{name} = [");
    let lines = text.lines().skip_while(|line| *line != start).skip(1).take_while(|line| *line != "]");
    let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| line.split('"').nth(1).map(str::to_owned)).collect()
}

/// Returns the packages that offer no choice of licences that are all allowed.
fn unlicensed(packages: &[Value], allowed: &[String]) -> Vec<String> {
    let is_wrong = |package: &&Value| !holds(package["license"].as_str().unwrap_or("none"), allowed);
    let wrong = packages.iter().filter(is_wrong);
    wrong.map(|package| format!("{}: licence {}", name(package), package["license"])).collect()
}

/// Returns whether an expression is satisfied: `AND` binds tighter than `OR`, and an alternative within parentheses
/// counts as one.
fn holds(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before, rest)) = expression.split_once('(')
        && let Some((inner, after)) = rest.split_once(')')
    {
        let inner = if holds(inner, allowed) { allowed.first().map_or("", String::as_str) } else { "none" };
        return holds(&format!("{before}{inner}{after}"), allowed);
    }
    let is_allowed = |licence: &str| allowed.iter().any(|allowed| allowed == licence.trim());
    expression.split(" OR ").any(|choice| choice.split(" AND ").all(is_allowed))
}

/// Returns the packages with several versions, except for those in the list; and entries of the list that are not
/// needed.
fn doubled(packages: &[Value], skipped: &[String]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let is_skipped = |package: &&Value| skipped.contains(&name(package));
    for package in packages.iter().filter(|package| !is_skipped(package)) {
        versions.entry(package["name"].as_str().unwrap_or_default()).or_default().push(name(package));
    }
    let several = versions.into_values().filter(|versions| versions.len() > 1);
    let several = several.map(|versions| format!("several versions: {}", versions.join(", ")));
    let all: Vec<String> = packages.iter().map(name).collect();
    let stale = skipped.iter().filter(|skipped| !all.contains(skipped));
    several.chain(stale.map(|skipped| format!("deny.toml skips {skipped}, which is not there"))).collect()
}

fn name(package: &Value) -> String {
    let part = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    format!("{}@{}", part("name"), part("version"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allowed() -> Vec<String> {
        ["MIT", "Apache-2.0", "ISC"].map(str::to_owned).to_vec()
    }

    #[test]
    fn licences_are_chosen_and_combined() {
        for right in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "Apache-2.0 AND ISC", "(MIT OR X) AND ISC"] {
            assert!(holds(right, &allowed()), "{right}");
        }
        for wrong in ["GPL-3.0", "MIT AND GPL-3.0", "(X OR Y) AND MIT", "none", ""] {
            assert!(!holds(wrong, &allowed()), "{wrong}");
        }
    }

    #[test]
    fn several_versions_are_named_unless_they_are_listed() {
        let packages = ["1.0.0", "2.0.0"].map(|version| json!({"name": "a", "version": version}));
        assert_eq!(doubled(&packages, &[]), ["several versions: a@1.0.0, a@2.0.0"]);
        assert!(doubled(&packages, &["a@1.0.0".to_owned()]).is_empty());
        assert_eq!(doubled(&packages[..1], &["b@1.0.0".to_owned()]).len(), 1);
    }

    #[test]
    fn the_lists_are_read() {
        let text = "# x\nallow = [\n    \"MIT\",\n    # why\n    \"ISC\",\n]\nskip = [\n    { crate = \"a@1\", reason = \"b\" },\n]\n";
        assert_eq!(strings(text, "allow"), ["MIT", "ISC"]);
        assert_eq!(strings(text, "skip"), ["a@1"]);
    }
}
