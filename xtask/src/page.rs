//! `cargo xtask page`: bundles the page of `ui/` into the files that flamelet embeds, which a test compares.

use crate::{Failure, Outcome, run, workspace};

pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::unusable(format!("page takes no arguments, not `{unknown}`")));
    }
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--quiet", "--package", "flamelet-report", "--test", "page"]);
    run::step("crates/report/src/page/assets", cargo.env("UPDATE_PAGE", "1"))
}
