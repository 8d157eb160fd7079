//! `cargo xtask bench NAME`.

use crate::{Failure, Outcome};

/// Runs one benchmark by name.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    match arguments.first().map(String::as_str) {
        Some(other) => Err(Failure::unusable(format!("no benchmark `{other}`"))),
        None => Err(Failure::unusable("bench needs a name: open, symbolize")),
    }
}
