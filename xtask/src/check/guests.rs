//! Checks that the library changes nothing for the service that links it: Cargo unites the features that all crates of a
//! program ask of a dependency, so a feature that we turn on is on for the whole program.

use crate::{Failure, Outcome, run, workspace};

/// Features that choose how a crate works, where everybody in the program gets the same choice.
const CHOICES: &[(&str, &[&str])] = &[
    ("flate2", &["any_zlib", "any_c_zlib", "zlib", "zlib-ng", "zlib-rs", "cloudflare_zlib"]),
    ("serde_json", &["preserve_order", "arbitrary_precision", "float_roundtrip", "unbounded_depth"]),
    ("tokio", &["tracing", "full", "test-util"]),
];

/// Looks at what `flamelet` requires with all its features.
pub(super) fn check() -> Outcome {
    let mut cargo = workspace::cargo();
    cargo.args(["tree", "--locked", "--package", "flamelet", "--all-features", "--edges", "normal"]);
    let tree = run::output(cargo.args(["--prefix", "none", "--format", "{p}\t{f}"]))?;
    let wrong = wrong_choices(&tree);
    if wrong.is_empty() {
        println!("   the library chooses nothing for the service: {} crates looked at", CHOICES.len());
        return Ok(());
    }
    Err(Failure::failed(wrong.join("\n       ")))
}

fn wrong_choices(tree: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in tree.lines() {
        let Some((package, features)) = line.split_once('\t') else { continue };
        let name = package.split(' ').next().unwrap_or(package);
        let choices =
            CHOICES.iter().find(|(choice, _)| *choice == name).map_or(&[][..], |(_, choices)| choices);
        // Cargo marks what it has shown before.
        let made = features.trim_end_matches(" (*)").split(',').filter(|feature| choices.contains(feature));
        wrong.extend(
            made.map(|feature| format!("the library turns on {feature} of {package} for the whole service")),
        );
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_a_choice() {
        assert!(
            wrong_choices("flamelet v0.1.0\tcpu,heap\nflate2 v1.1.10\tany_impl,default,miniz_oxide\n")
                .is_empty()
        );
        let wrong = wrong_choices("flate2 v1.1.10\tmetal,zlib-rs (*)\nflate2 v1.1.10\tzlib-rs\n");
        assert_eq!(wrong, ["the library turns on zlib-rs of flate2 v1.1.10 for the whole service"]);
    }
}
