//! Code that programs generate: unwound by its instructions, named by the lists that programs write.

use crate::programs::{alone, c, folder, quiet};
use crate::seen::{frames, number, recorded};
use flamelet_record::Recorded;

const LEVELS: usize = 20;

fn recording(list: &str) -> Recorded {
    let program = c("trampolines", &["-fomit-frame-pointer"]);
    let mut command = quiet(&program, &[list]);
    command.current_dir(folder());
    recorded(command, |options| options.frequency = 499)
}

/// Returns the share of the samples whose stacks have every level in its place, below `main`.
fn whole_share(recorded: &Recorded) -> f64 {
    let profile = &recorded.profile;
    let expected: Vec<String> = (0..LEVELS).rev().map(|level| format!("py::level_{level}:/a.py")).collect();
    let (mut whole, mut all) = (0, 0);
    for sample in profile.samples() {
        let names = frames(profile, &sample);
        if !names.contains(&"evaluate") {
            continue;
        }
        all += sample.values[0];
        let levels: Vec<&str> = names.iter().copied().filter(|name| name.starts_with("py::")).collect();
        if levels == expected && names.contains(&"main") {
            whole += sample.values[0];
        }
    }
    assert!(all > 20, "{all} samples are in the recursion");
    whole as f64 / all as f64
}

#[test]
fn trampolines_without_frame_pointers_are_unwound_and_named() {
    let _alone = alone();
    let recorded = recording("map");
    let profile = &recorded.profile;
    for pid in profile.samples().filter_map(|sample| number(profile, &sample, "pid")) {
        let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    }
    let share = whole_share(&recorded);
    // The way down and up has fewer levels.
    assert!(share > 0.97, "{share} of the stacks are whole; {:?}", recorded.summary);
    assert!(recorded.summary.rooted_share() > 0.97, "{:?}", recorded.summary);
}

#[test]
fn a_jitdump_names_generated_code() {
    let _alone = alone();
    let share = whole_share(&recording("dump"));
    assert!(share > 0.97, "{share} of the stacks are whole");
}
