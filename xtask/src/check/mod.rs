//! `cargo xtask check`: checks everything about the sources that does not require running them.

mod cycles;
mod edges;
mod features;
mod guests;
mod links;
mod locks;
mod stale;
mod targets;

use crate::tally::Tally;
use crate::{Failure, Outcome, run, skips, workspace};

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::unusable(format!("check takes no arguments, not `{unknown}`")));
    }
    let mut tally = Tally::default();
    fast(&mut tally)?;
    docs()?;
    features()?;
    targets(&mut tally)?;
    if skips::judge(&tally.skips) > 0 {
        return Err(Failure::failed("some checks were skipped"));
    }
    println!("\nall checks passed");
    Ok(())
}

/// Runs the checks that `cargo xtask test` begins with.
pub(crate) fn fast(tally: &mut Tally) -> Outcome {
    if installed("fmt", tally) {
        run::step("formatting", workspace::cargo().args(["fmt", "--all", "--check"]))?;
    }
    run::heading("lock files, crate edges, module cycles and documents");
    locks::check()?;
    edges::check()?;
    cycles::check()?;
    guests::check()?;
    stale::check(tally)?;
    if installed("clippy", tally) {
        run::step("clippy", workspace::cargo().args(CLIPPY))?;
    }
    Ok(())
}

/// Checks that every combination of features compiles.
pub(crate) fn features() -> Outcome {
    features::check()
}

/// Checks that the library and the command compile for other machines.
pub(crate) fn targets(tally: &mut Tally) -> Outcome {
    targets::check(tally)
}

const CLIPPY: [&str; 6] = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];

/// Returns whether the component is installed. Rust's minimal profile has neither clippy nor rustfmt; the tests do
/// not depend on them.
fn installed(component: &str, tally: &mut Tally) -> bool {
    let there = run::output(workspace::cargo().args([component, "--version"])).is_ok();
    if !there {
        tally.skip(
            component,
            &format!("SKIP: cargo {component} is not installed (rustup component add {component})"),
        );
    }
    there
}

/// Builds the documentation of all crates; warnings are errors.
pub(crate) fn docs() -> Outcome {
    let mut command = workspace::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings");
    run::step("docs", &mut command)
}

/// Returns `cargo metadata` of the workspace's own packages.
fn metadata() -> Result<Vec<serde_json::Value>, Failure> {
    let text = run::output(workspace::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let mut metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::failed(format!("cargo metadata: {error}")))?;
    match metadata["packages"].take() {
        serde_json::Value::Array(packages) => Ok(packages),
        _ => Err(Failure::failed("cargo metadata names no packages")),
    }
}
