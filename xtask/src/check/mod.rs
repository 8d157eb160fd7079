//! `cargo xtask check`: everything that can be said about the sources without running them.

mod edges;
mod features;
mod stale;
mod targets;

use crate::{Failure, Outcome, run, workspace};

/// All checks.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::unusable(format!("check takes no arguments, not `{unknown}`")));
    }
    fast()?;
    docs()?;
    features::check()?;
    targets::check()?;
    println!("\nall checks hold");
    Ok(())
}

/// The checks that `cargo xtask test` begins with.
pub(crate) fn fast() -> Outcome {
    if installed("fmt") {
        run::step("formatting", workspace::cargo().args(["fmt", "--all", "--check"]))?;
    }
    run::heading("crate edges and documents");
    edges::check()?;
    stale::check()?;
    if installed("clippy") {
        run::step("clippy", workspace::cargo().args(CLIPPY))?;
    }
    Ok(())
}

const CLIPPY: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];

/// A machine with Rust's minimal profile has neither; the tests do not depend on them.
fn installed(component: &str) -> bool {
    let there = run::output(workspace::cargo().args([component, "--version"])).is_ok();
    if !there {
        eprintln!("SKIP: cargo {component} is not installed (rustup component add {component})");
    }
    there
}

fn docs() -> Outcome {
    let mut command = workspace::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings");
    run::step("docs", &mut command)
}

/// `cargo metadata` of the workspace's own packages.
fn metadata() -> Result<Vec<serde_json::Value>, Failure> {
    let text = run::output(workspace::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let mut metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::failed(format!("cargo metadata: {error}")))?;
    match metadata["packages"].take() {
        serde_json::Value::Array(packages) => Ok(packages),
        _ => Err(Failure::failed("cargo metadata names no packages")),
    }
}
