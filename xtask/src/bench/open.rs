//! Opening a large profile: `flamelet top` and `flamelet flame` compared with `pprof -top`.

use std::path::Path;
use std::process::Command;

use super::measure::{Cost, cost};
use super::page::{Section, verdict};
use super::statistics::{median_cost, megabytes, seconds, times};
use super::{Options, build_flamelet, folder, generate};
use crate::golang::Golang;
use crate::{Failure, run};

/// A profile of a million stacks, and a tenth of it.
const STACKS: [usize; 2] = [1_000_000, 100_000];

/// The costs of one profile for each program.
struct Figures {
    stacks: usize,
    bytes: u64,
    pprof: Cost,
    top: Cost,
    flame: Cost,
    page: u64,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let flamelet = build_flamelet()?;
    let golang = Golang::prepare(true)?;
    let pprof = golang.pprof();
    let mut figures = Vec::new();
    for stacks in STACKS {
        let profile = generate(stacks)?;
        check_same_rows(&flamelet, pprof, &profile)?;
        figures.push(measure(&flamelet, pprof, &profile, stacks, options.rounds)?);
    }
    Ok(section(&figures, options.rounds))
}

/// Checks that both print the same rows: a fast wrong answer is worth nothing.
fn check_same_rows(flamelet: &Path, pprof: &Path, profile: &Path) -> Result<(), Failure> {
    let rows = |text: String| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let arguments = ["-top", "-nodecount=50"];
    let theirs = rows(run::output(Command::new(pprof).args(arguments).arg(profile))?);
    let ours = rows(run::output(Command::new(flamelet).arg("pprof").args(arguments).arg(profile))?);
    match theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours) {
        None if theirs.len() == ours.len() => Ok(()),
        None => Err(Failure::failed("pprof and flamelet print different numbers of rows")),
        Some((theirs, ours)) => {
            Err(Failure::failed(format!("rows differ\n  pprof    {theirs}\n  flamelet {ours}")))
        }
    }
}

fn measure(
    flamelet: &Path,
    pprof: &Path,
    profile: &Path,
    stacks: usize,
    rounds: usize,
) -> Result<Figures, Failure> {
    let page = folder()?.join(format!("flame-{stacks}.html"));
    let (mut theirs, mut top, mut flame) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        println!("   {stacks} stacks, round {round} of {rounds}");
        top.push(cost(Command::new(flamelet).arg("top").arg(profile))?);
        theirs.push(cost(Command::new(pprof).arg("-top").arg(profile))?);
        flame.push(cost(Command::new(flamelet).arg("flame").arg(profile).arg("-o").arg(&page))?);
    }
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    Ok(Figures {
        stacks,
        bytes: size(profile),
        pprof: median_cost(&theirs),
        top: median_cost(&top),
        flame: median_cost(&flame),
        page: size(&page),
    })
}

fn section(figures: &[Figures], rounds: usize) -> Section {
    let mut rows = Vec::new();
    for figure in figures {
        let profile = format!("{} stacks, {}", figure.stacks, megabytes(figure.bytes));
        let runs =
            [("pprof -top", figure.pprof), ("flamelet top", figure.top), ("flamelet flame", figure.flame)];
        for (program, cost) in runs {
            rows.push(vec![
                profile.clone(),
                format!("`{program}`"),
                seconds(cost.cpu),
                seconds(cost.wall),
                megabytes(cost.peak),
                times(figure.pprof.cpu.as_secs_f64(), cost.cpu.as_secs_f64()),
                times(figure.pprof.peak as f64, cost.peak as f64),
            ]);
        }
    }
    Section {
        title: "open: a large profile, from file to answer".to_owned(),
        about: format!(
            "A seeded profile of unique stacks, about 40 frames deep, uncompressed; {rounds} rounds. \
             Before the measurement, both\nprograms must print the same fifty rows."
        ),
        columns: vec!["profile", "program", "CPU", "wall", "peak memory", "less CPU", "less memory"],
        rows,
        goals: figures.first().map(goals).unwrap_or_default(),
    }
}

fn goals(figure: &Figures) -> Vec<String> {
    let cpu = figure.pprof.cpu.as_secs_f64() / figure.top.cpu.as_secs_f64();
    let flame = figure.flame.cpu.as_secs_f64() / figure.top.cpu.as_secs_f64();
    let page = figure.page as f64 / 1e6;
    let (wall, peak) = (figure.top.wall.as_secs_f64(), figure.top.peak as f64 / 1e6);
    vec![
        format!("`top` with at least 60 times less CPU than pprof: {cpu:.1} times, {}", verdict(cpu >= 60.0)),
        format!("… in 0.6 s or less: {wall:.2} s, {}", verdict(wall <= 0.6)),
        format!("… with 250 MB or less: {peak:.0} MB, {}", verdict(peak <= 250.0)),
        format!(
            "the flame HTML in under twice the time of `top`: {flame:.2} times, {}",
            verdict(flame < 2.0)
        ),
        format!("… and under 5 MB: {page:.2} MB, {}", verdict(page < 5.0)),
    ]
}
