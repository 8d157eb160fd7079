//! `cargo xtask release VERSION`: gives every crate the version, and the changelog a heading for it.

use std::path::Path;
use std::process::Command;

use crate::{Failure, Outcome, run, workspace};

/// The heading of what is not released yet.
const UNRELEASED: &str = "## Unreleased\n";
/// The workspaces whose lock files name our crates.
const MANIFESTS: [&str; 4] = ["Cargo.toml", "bench/Cargo.toml", "fuzz/Cargo.toml", "recipes/Cargo.toml"];

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let [version] = arguments else {
        return Err(Failure::unusable("release takes a version, such as: cargo xtask release 0.2.0"));
    };
    let manifest = workspace::read("Cargo.toml")?;
    let old = current(&manifest).ok_or_else(|| Failure::failed("Cargo.toml has no version"))?;
    check_order(old, version)?;
    let changes =
        run::output(Command::new("git").args(["status", "--porcelain"]).current_dir(workspace::root()))?;
    if !changes.is_empty() {
        return Err(Failure::unusable(
            "there are changes that are not committed; commit or stash them first",
        ));
    }
    let date = run::output(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    let changelog = with_heading(&workspace::read("CHANGELOG.md")?, version, date.trim())?;
    write("CHANGELOG.md", &changelog)?;
    write("Cargo.toml", &with_version(&manifest, old, version))?;
    for manifest in MANIFESTS {
        let mut cargo = workspace::cargo();
        cargo.args(["update", "--workspace", "--offline", "--quiet", "--manifest-path", manifest]);
        run::step(&format!("the lock file of {manifest}"), &mut cargo)?;
    }
    println!("\nEvery crate has version {version}. Next:");
    println!("  git commit -am 'release: {version}' && git tag v{version}");
    println!("  cargo xtask dist                # what to upload, under target/dist");
    println!("  cargo publish --workspace       # to the registry");
    Ok(())
}

fn write(name: &str, text: &str) -> Outcome {
    std::fs::write(workspace::root().join(Path::new(name)), text)
        .map_err(|error| Failure::failed(format!("{name}: {error}")))
}

/// Returns the version of all crates, the first in the manifest of the workspace.
fn current(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

/// Reads `1.2.3`.
fn parts(version: &str) -> Option<[u64; 3]> {
    let parts: Vec<u64> = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    parts.try_into().ok()
}

fn check_order(old: &str, new: &str) -> Outcome {
    let wanted = parts(new);
    match wanted {
        None => Err(Failure::unusable(format!("{new}: write it as MAJOR.MINOR.PATCH"))),
        Some(_) if wanted <= parts(old) => Err(Failure::unusable(format!("{new}: must be later than {old}"))),
        Some(_) => Ok(()),
    }
}

/// Replaces the version of the workspace, and where our crates name each other.
fn with_version(manifest: &str, old: &str, new: &str) -> String {
    let (from, to) = (format!("version = \"{old}\""), format!("version = \"{new}\""));
    let is_ours = |line: &str| line.starts_with("version = ") || line.contains("path = \"crates/");
    let lines =
        manifest.lines().map(|line| if is_ours(line) { line.replace(&from, &to) } else { line.to_owned() });
    lines.map(|line| line + "\n").collect()
}

/// Puts what is not released yet under the version, below a new empty heading.
fn with_heading(changelog: &str, version: &str, date: &str) -> Result<String, Failure> {
    let Some((before, rest)) = changelog.split_once(UNRELEASED) else {
        return Err(Failure::failed("CHANGELOG.md has no heading `## Unreleased`"));
    };
    let changes = rest.split("\n## ").next().unwrap_or_default();
    if changes.trim().is_empty() {
        return Err(Failure::unusable("CHANGELOG.md lists nothing that is not released yet"));
    }
    Ok(format!("{before}{UNRELEASED}\n## {version} ({date})\n{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_grow() {
        assert!(check_order("0.1.9", "0.1.10").is_ok() && check_order("0.1.0", "1.0.0").is_ok());
        for wrong in ["0.1.0", "0.0.9", "1.0", "v1.0.0", "1.0.0-rc1", ""] {
            assert!(check_order("0.1.0", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_our_versions_change() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\n[workspace.dependencies]\nflamelet = { path = \"crates/flamelet\", version = \"0.1.0\" }\nother = { version = \"0.1.0\" }\n";
        let changed = with_version(manifest, current(manifest).expect("a version"), "0.2.0");
        assert_eq!(changed.matches("0.2.0").count(), 2);
        assert!(changed.contains("other = { version = \"0.1.0\" }"));
    }

    #[test]
    fn the_changelog_begins_anew() {
        let text = "# Changelog\n\n## Unreleased\n\n- a\n\n## 0.1.0 (2026-01-01)\n\n- b\n";
        let changed = with_heading(text, "0.2.0", "2026-02-02").expect("changed");
        assert!(changed.contains("## Unreleased\n\n## 0.2.0 (2026-02-02)\n\n- a\n\n## 0.1.0"), "{changed}");
        assert!(with_heading(&changed, "0.3.0", "x").is_err(), "there is nothing to release");
        assert!(with_heading("# Changelog\n", "0.3.0", "x").is_err());
    }
}
