//! Folds the frames of a profile: chains of frames that are not yours, type parameters, functions of one crate.
//!
//! Flame graphs fold chains as they are laid out, so that each can be opened; this is for all other reports.

use flamelet_profile::Profile;
use flamelet_symbol::owner::Owners;

use crate::names::{self, NameFolding};
use crate::stacks::{Chain, Chains, Frames, OwnerId};

/// Folds what `folding` says; `owners` are found if they are not known yet.
pub fn fold(profile: &mut Profile, folding: NameFolding, owners: Option<&Owners>) {
    if folding.runtime {
        match owners {
            Some(owners) => fold_chains(profile, owners),
            None => fold_chains(profile, &Owners::of(profile, |_, _| false)),
        }
    }
    names::fold(profile, folding);
}

/// Replaces each chain of frames that are not yours, between a thread's start and your code or between two functions
/// of yours, by one frame: `[folded: tokio]`.
pub fn fold_chains(profile: &mut Profile, owners: &Owners) {
    let frames = Frames::with_owners(profile, owners);
    let chains = Chains::of(profile, &frames);
    let names = (0..frames.owner_count())
        .map(|at| names::folded_name(names::package_name(frames.owner_at(OwnerId::from_index(at)))));
    let names: Vec<String> = names.collect();
    let mut marks: Vec<Option<Chain>> = Vec::new();
    profile.fold_frames(&names, |profile, stack, groups| {
        chains.of_stack(&frames, profile.stack(stack), &mut marks);
        groups.extend(marks.iter().map(|mark| mark.map(|chain| chain.owner.index() as u32)));
    });
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Line, ProfileBuilder};

    use super::*;

    const STD: &str = "/rustc/5980/library/std/src/rt.rs";
    const TOKIO: &str = "/home/a/.cargo/registry/src/index-1/tokio-1.47.1/src/task.rs";
    const SERDE: &str = "/home/a/.cargo/registry/src/index-1/serde_json-1.0.1/src/de.rs";

    fn file_of(name: &str) -> &'static str {
        match name.split("::").next() {
            Some("std") => STD,
            Some("tokio") => TOKIO,
            Some("serde_json") => SERDE,
            _ => "/home/me/shop/src/main.rs",
        }
    }

    /// Folds a stack, given from its root with inlined frames joined by `+`, and returns it in the same form.
    fn folded(stack: &str) -> String {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let mut locations = Vec::new();
        for (at, names) in stack.split(' ').rev().enumerate() {
            let lines: Vec<Line> = names
                .split('+')
                .rev()
                .map(|name| Line {
                    function: Some(builder.named_function(name, file_of(name))),
                    line: 1,
                    column: 0,
                })
                .collect();
            locations.push(builder.location(None, at as u64 + 1, &lines));
        }
        let stack = builder.stack(&locations);
        builder.sample(stack, Default::default(), &[1]);
        let mut profile = builder.finish();
        fold(&mut profile, NameFolding { runtime: true, ..NameFolding::default() }, None);
        let name = |line: &Line| profile.string(profile.function(line.function.unwrap()).name);
        let stack = profile.stack(profile.sample(0).stack).iter().rev();
        let names = stack.map(|&id| profile.lines(id).iter().rev().map(name).collect::<Vec<_>>().join("+"));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn chains_become_one_frame() {
        for (stack, expected) in [
            ("std::rt::start tokio::run tokio::poll shop::serve", "[folded: tokio] shop::serve"),
            // A single frame stays, and so does what your code calls.
            (
                "std::rt::start shop::serve std::io::read std::sys::read",
                "std::rt::start shop::serve std::io::read std::sys::read",
            ),
            (
                "shop::serve serde_json::de serde_json::map shop::visit serde_json::str serde_json::utf8",
                "shop::serve [folded: serde_json] shop::visit serde_json::str serde_json::utf8",
            ),
            // Inlined frames: the chain ends within a location.
            (
                "std::rt::start tokio::run+tokio::poll+shop::serve+std::io::read",
                "[folded: tokio] shop::serve+std::io::read",
            ),
            // Nothing is yours: up to the innermost frame of the runtime.
            ("std::rt::start tokio::run tokio::park std::sync::wait", "[folded: tokio] std::sync::wait"),
            ("std::io::read std::sys::read", "std::io::read std::sys::read"),
            ("shop::main", "shop::main"),
        ] {
            assert_eq!(folded(stack), expected, "{stack}");
        }
    }
}
