//! Stacks that are larger than any dump: a tokio service whose poll has a frame of 122 KB, and a program that knows
//! which of two callers is the right one.

use std::process::Command;

use super::recorder::Recorder;
use super::recording::Recording;
use super::{Load, Tools, cpu_goal, goal, middle};
use crate::bench::measure::cost;
use crate::{Failure, workspace};

/// Returns lines that say how much of the stacks was kept, and how much of that is right.
pub(super) fn compare(tools: &Tools, rounds: usize, millis: u32) -> Result<Vec<String>, Failure> {
    let load = Load { name: "tokio, 122 KB frames", kind: "tokio", threads: 2, hertz: 997, millis };
    let mut recordings = Vec::new();
    for round in 1..=rounds {
        println!("   {}, round {round} of {rounds}: {}", load.name, Recorder::Flamelet.name());
        recordings.push(Recording::make(tools, load, Recorder::Flamelet)?);
    }
    let unrooted = middle(&recordings, |recording| Some((1.0 - recording.rooted?) * 100.0));
    let mut lines = vec![
        goal(load.name, "% of the stacks that do not reach their root", unrooted, 0.5),
        goal(load.name, "samples lost", middle(&recordings, |one| one.lost.map(|lost| lost as f64)), 0.0),
        cpu_goal(load.name, "eager", &recordings, 30.0),
    ];
    let peers = Recorder::all(tools)
        .into_iter()
        .filter(|peer| matches!(peer, Recorder::Samply | Recorder::Flamegraph));
    for peer in peers {
        // Short, because only the roots matter, and cargo-flamegraph writes 60 MB a second for each thread.
        let short = Load { millis: millis.min(3000), ..load };
        println!("   {}: {}", load.name, peer.name());
        let rooted = Recording::make(tools, short, peer)?.rooted.unwrap_or(f64::NAN) * 100.0;
        lines.push(format!("{}: {} roots {rooted:.1} % of the stacks", load.name, peer.name()));
    }
    lines.extend(two_callers(tools, rounds, millis)?);
    Ok(lines)
}

/// Returns the share of completed stacks with the wrong caller, and of those without one, over all rounds.
fn two_callers(tools: &Tools, rounds: usize, millis: u32) -> Result<[String; 2], Failure> {
    const NAME: &str = "two callers that alternate every 30 µs above a frame of 122 KB";
    let program = tools.folder.join("two_callers");
    let mut build = Command::new("rustc");
    build.args(["-O", "-g", "--edition", "2024", "-o"]).arg(&program);
    build.arg(workspace::root().join("crates/record/tests/programs/two_callers.rs"));
    cost(&mut build)?;
    let (profile, folded) = (tools.folder.join("two_callers.pb.gz"), tools.folder.join("two_callers.folded"));
    let mut seen = Seen::default();
    for round in 1..=rounds {
        println!("   two callers, round {round} of {rounds}");
        let mut record = Command::new(&tools.flamelet);
        record.args(["record", "-o"]).arg(&profile).arg("--").arg(&program);
        cost(record.args(["large", &millis.to_string()]))?;
        cost(Command::new(&tools.flamelet).arg("convert").arg(&profile).arg("-o").arg(&folded))?;
        seen.add(&std::fs::read_to_string(&folded).unwrap_or_default());
    }
    let Seen { right, wrong, cut } = seen;
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    Ok([
        goal(NAME, "% of the stacks with the wrong caller", Some(percent(wrong, right + wrong)), 0.0),
        goal(NAME, "% of the stacks that are cut below it", Some(percent(cut, right + wrong + cut)), 0.5),
    ])
}

/// Time in the two leaves: under the right caller, under the wrong one, under none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    right: u64,
    wrong: u64,
    cut: u64,
}

impl Seen {
    /// Adds the stacks of a folded file.
    fn add(&mut self, folded: &str) {
        for line in folded.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            let count: u64 = count.parse().unwrap_or(0);
            let has = |function: &str| stack.split(';').any(|frame| frame.contains(function));
            let (own, other) = match (has("leaf_a"), has("leaf_b")) {
                (true, false) => ("caller_a", "caller_b"),
                (false, true) => ("caller_b", "caller_a"),
                _ => continue,
            };
            match (has(own), has(other)) {
                (_, true) => self.wrong += count,
                (true, false) => self.right += count,
                (false, false) => self.cut += count,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_in_a_folded_file() {
        let mut seen = Seen::default();
        seen.add(
            "clone3;two::caller_a<1>;two::frame;two::leaf_a;spin 5\nx;two::caller_b;two::leaf_a 2\ntwo::leaf_b 3\n\
             main;other 9\n",
        );
        assert_eq!(seen, Seen { right: 5, wrong: 2, cut: 3 });
    }
}
