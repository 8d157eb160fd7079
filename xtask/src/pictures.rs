//! `cargo xtask pictures`: draws the pictures of the documents again, which a test compares with the committed ones.

use crate::{Failure, Outcome, run, workspace};

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::unusable(format!("pictures takes no arguments, not `{unknown}`")));
    }
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--quiet", "--package", "flamelet-tests", "--test", "command", "pictures::"]);
    run::step("docs/images", cargo.env("FLAMELET_REGENERATE", "1"))
}
