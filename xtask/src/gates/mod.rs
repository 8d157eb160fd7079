//! Checks beyond the tests: each gate is a step of the full `cargo xtask test`, and runs alone with
//! `cargo xtask gate NAME`.

mod clean_clone;
mod deploy;
mod jemalloc_for_c;
mod lanes;
mod licences;
mod recipes;
pub(crate) mod sanitizer;
mod static_link;
mod unoptimized;

pub(crate) use lanes::beside;

use crate::processes::Stopwatch;
use crate::tally::Tally;
use crate::{Failure, Outcome, check, fuzz, run, skips};

/// A gate, and what it is for.
struct Gate {
    name: &'static str,
    title: &'static str,
    /// Fails, or returns its counts: the tests it ran, and those it skipped.
    run: fn(&mut Tally) -> Outcome,
}

/// All gates, long ones first, because two run at a time; the last one after all others.
const GATES: &[Gate] = &[
    Gate { name: "clean-clone", title: "README's command in a clean clone", run: clean_clone::check },
    Gate { name: "fuzz", title: "fuzz targets", run: fuzz::gate },
    Gate { name: "sanitizer", title: "address sanitizer", run: sanitizer::check },
    Gate { name: "features", title: "features", run: |_| check::features() },
    Gate { name: "recipes", title: "recipes for other servers", run: recipes::check },
    Gate { name: "licences", title: "licences and versions", run: licences::check },
    Gate { name: "targets", title: "other machines", run: check::targets },
    Gate { name: "static-link", title: "statically linked program", run: static_link::check },
    Gate { name: "jemalloc-for-c", title: "C's memory by jemalloc", run: jemalloc_for_c::check },
    Gate { name: "unoptimized", title: "unoptimized build", run: unoptimized::check },
    Gate { name: "docs", title: "documentation", run: |_| check::docs() },
    Gate { name: "deploy", title: "files for containers and clusters", run: deploy::check },
    Gate { name: "dist", title: "packages of a release", run: clean_clone::make_release },
];

/// Returns the names of all gates.
pub(crate) fn names() -> String {
    GATES.iter().map(|gate| gate.name).collect::<Vec<_>>().join(", ")
}

/// `cargo xtask gate [NAME…]`.
pub(crate) fn run(names: &[String]) -> Outcome {
    if let Some(unknown) = names.iter().find(|name| GATES.iter().all(|gate| gate.name != **name)) {
        return Err(Failure::unusable(format!("no gate `{unknown}`; there are {}", self::names())));
    }
    let is_asked = |gate: &&Gate| names.is_empty() || names.iter().any(|name| name == gate.name);
    let results = pass(GATES.iter().filter(is_asked));
    let wrong = skips::judge(&results.tally.skips) + results.print();
    if wrong == 0 { Ok(()) } else { Err(Failure::failed("gates failed")) }
}

/// The results of the gates.
#[derive(Default)]
pub(crate) struct Results {
    /// Their counts; tests that ran again in another build are not counted again.
    pub(crate) tally: Tally,
    lines: Vec<String>,
    failed: u64,
}

impl Results {
    fn add(&mut self, other: Results) {
        self.tally.add(other.tally);
        self.lines.extend(other.lines);
        self.failed += other.failed;
    }

    /// Prints a line for each gate, and returns how many failed.
    pub(crate) fn print(&self) -> u64 {
        run::heading("gates");
        self.lines.iter().for_each(|line| println!("   {line}"));
        self.failed
    }
}

fn pass<'a>(gates: impl Iterator<Item = &'a Gate>) -> Results {
    let mut results = Results::default();
    for gate in gates {
        run::heading(gate.title);
        let stopwatch = Stopwatch::start();
        let mut tally = Tally::default();
        let outcome = (gate.run)(&mut tally);
        let ran = if tally.passed > 0 { format!("  {} tests passed", tally.passed) } else { String::new() };
        let verdict = outcome.as_ref().map_or_else(|failure| failure.message.as_str(), |()| "holds");
        results.lines.push(format!("{:<34}{}  {verdict}{ran}", gate.title, stopwatch.cost()));
        println!("   {}", results.lines.last().map_or("", String::as_str));
        results.failed += u64::from(outcome.is_err());
        results.tally.add(tally);
    }
    results
}
