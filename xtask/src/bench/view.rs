//! Viewing a profile in Chromium: `flamelet view` compared with `pprof -http`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::page::{Section, at_most, cell, verdict};
use super::statistics::middle;
use super::{Options, build_flamelet, generate};
use crate::golang::Golang;
use crate::{Failure, run, workspace};

/// Both open the smaller one; only flamelet opens the larger (pprof would need ten gigabytes).
const STACKS: [usize; 2] = [100_000, 1_000_000];
/// Only pprof needs an explicit address.
const PPROF_ADDRESS: &str = "127.0.0.1:47391";

/// One program on one profile, a value for each round.
struct Figures {
    name: String,
    rounds: Vec<Value>,
}

impl Figures {
    fn middle(&self, field: &str) -> Option<f64> {
        middle(self.rounds.iter().filter_map(|answer| answer[field].as_f64()))
    }
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let golang = Golang::prepare(true)?;
    prepare_page_tests()?;
    let rounds = if options.quick { 1 } else { options.rounds };
    let [small, large] = if options.quick { [2_000, 5_000] } else { STACKS };
    let (small, large) = (generate(small)?, generate(large)?);
    let mut all = [
        Figures { name: format!("`flamelet view`, {}", stem(&small)), rounds: Vec::new() },
        Figures { name: format!("`pprof -http`, {}", stem(&small)), rounds: Vec::new() },
        Figures { name: format!("`flamelet view`, {}", stem(&large)), rounds: Vec::new() },
    ];
    for round in 1..=rounds {
        println!("   round {round} of {rounds}");
        all[0].rounds.push(of_flamelet(&flamelet, &small)?);
        all[1].rounds.push(of_pprof(golang.pprof(), &small)?);
        all[2].rounds.push(of_flamelet(&flamelet, &large)?);
    }
    Ok(section(&all, rounds))
}

/// Installs playwright-core, like the page's own tests.
fn prepare_page_tests() -> Result<(), Failure> {
    let out = workspace::target().join("ui-tests");
    if out.join("node_modules/playwright-core").is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(&out).map_err(|error| Failure::failed(error.to_string()))?;
    std::fs::copy(workspace::root().join("ui/package.json"), out.join("package.json"))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let mut install = Command::new("npm");
    // In that folder, not with --prefix: npm would look for the machine's settings below it.
    install.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]).current_dir(out);
    run::step("installing playwright-core", &mut install)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().replace("stacks-", "stacks: ")
}

fn of_flamelet(flamelet: &Path, profile: &Path) -> Result<Value, Failure> {
    let view = |what: &str| {
        let mut command = script(what, "flamelet");
        command.arg(flamelet).args(["view", "--no-browser"]).arg(profile);
        answer(&mut command)
    };
    let mut opened = view("time")?;
    let summary = view("summary")?;
    for field in ["summary_ms", "summary_cpu_s"] {
        opened[field] = summary[field].clone();
    }
    opened["total_mb"] = view("memory")?["total_mb"].clone();
    Ok(opened)
}

fn of_pprof(pprof: &Path, profile: &Path) -> Result<Value, Failure> {
    let mut command = script("time", "pprof");
    command.arg(pprof).args(["-no_browser", &format!("-http={PPROF_ADDRESS}")]).arg(profile);
    answer(&mut command)
}

/// The script that opens a profile in the browser; its header says what it measures.
fn script(what: &str, kind: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(workspace::root().join("bench/view/open.mjs")).args([what, kind]);
    command.env("FLAMELET_UI_OUT", workspace::target().join("ui-tests"));
    command
}

fn answer(command: &mut Command) -> Result<Value, Failure> {
    let text = run::output(command)?;
    let line = text.trim().lines().last().unwrap_or_default();
    serde_json::from_str(line)
        .map_err(|error| Failure::failed(format!("{command:?} printed `{line}`: {error}")))
}

fn section(all: &[Figures], rounds: usize) -> Section {
    let millis = |value: f64| format!("{value:.0} ms");
    let megabytes = |value: f64| format!("{value:.0} MB");
    let rows = all.iter().map(|figures| {
        vec![
            figures.name.clone(),
            cell(figures.middle("summary_ms"), millis),
            cell(figures.middle("summary_cpu_s"), |seconds| format!("{seconds:.2} s")),
            cell(figures.middle("first_ms"), millis),
            cell(figures.middle("cpu_s"), |seconds| format!("{seconds:.2} s")),
            cell(figures.middle("browser_cpu_s"), |seconds| format!("{seconds:.2} s")),
            cell(figures.middle("peak_mb"), megabytes),
            cell(figures.middle("browser_mb"), megabytes),
            cell(figures.middle("total_mb"), megabytes),
            cell(figures.middle("zoom_ms"), millis),
            cell(figures.middle("zoom_worst_ms"), millis),
            cell(figures.middle("frame_p95_ms"), |ms| format!("{ms:.1} ms")),
            cell(figures.middle("bytes"), |bytes| format!("{:.2} MB", bytes / 1e6)),
            cell(figures.middle("view_bytes"), |bytes| format!("{:.2} MB", bytes / 1e6)),
        ]
    });
    Section {
        title: "view: a large profile in the browser".to_owned(),
        about: format!(
            "From the start of the command to the first flame graph painted in headless Chromium, which is \
             already running with a\nsmall page, without a graphics card; {rounds} rounds. \"Its\" CPU and \
             memory are the command's; its memory is the peak.\nThe browser's figures are of all its \
             processes; its memory is what it holds beyond what it held before. The page opens\nwith its \
             summary: the time until that is painted, and the command's CPU time until then, come from \
             separate runs. \"In\nall\" is the highest sum of both memories at any moment, in a third run \
             that opens the summary and then the flame graph.\nA zoom is from the click to the paint; the \
             frames are those of a drag, and 95 % of them took this long or less (16.7 ms\nis 60 a \
             second). pprof needs about ten gigabytes for a million stacks and is left out there. \"Bytes \
             a view\" is the\nlargest single answer; pprof sends everything at once."
        ),
        columns: vec![
            "program",
            "summary",
            "summary, its CPU",
            "first picture",
            "its CPU",
            "browser CPU",
            "its memory",
            "browser memory",
            "in all",
            "a zoom",
            "worst zoom",
            "frame, p95",
            "bytes in all",
            "bytes a view",
        ],
        rows: rows.collect(),
        goals: goals(&all[0], &all[1], &all[2]),
    }
}

fn goals(small: &Figures, pprof: &Figures, large: &Figures) -> Vec<String> {
    let less = |theirs: Option<f64>, ours: Option<f64>| theirs.unwrap_or(f64::NAN) / ours.unwrap_or(f64::NAN);
    let cpu = less(pprof.middle("cpu_s"), small.middle("cpu_s"));
    let both = |figures: &Figures| Some(figures.middle("cpu_s")? + figures.middle("browser_cpu_s")?);
    vec![
        at_most("first picture, large profile", large.middle("first_ms").map(|ms| ms / 1e3), 2.0, "s"),
        at_most("summary, large profile", large.middle("summary_ms").map(|ms| ms / 1e3), 2.0, "s"),
        at_most("memory in all, large profile", large.middle("total_mb"), 400.0, "MB"),
        at_most("a zoom, large profile", large.middle("zoom_ms"), 100.0, "ms"),
        at_most("a frame while panning, large profile, p95", large.middle("frame_p95_ms"), 17.0, "ms"),
        at_most(
            "bytes a view, large profile",
            large.middle("view_bytes").map(|bytes| bytes / 1e6),
            1.0,
            "MB",
        ),
        format!(
            "20 times less CPU than pprof's page, small profile: {cpu:.1} times ({:.1} with the browser's), {}",
            less(both(pprof), both(small)),
            verdict(cpu >= 20.0)
        ),
    ]
}
