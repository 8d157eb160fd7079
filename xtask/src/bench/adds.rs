//! What the library adds to a service: crates, time to build, size of the program, memory.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::measure::cost;
use super::page::{Section, at_most};
use super::process::Process;
use super::statistics::{median, megabytes, seconds};
use super::{Options, folder};
use crate::{Failure, run, workspace};

const PACKAGE: &str = "bench-adds";
/// The service without flamelet and with it: what selects it.
const SERVICES: [(&str, &[&str]); 2] =
    [("an axum service", &[]), ("with flamelet", &["--features", "flamelet"])];
/// Requests before its memory is looked at.
const REQUESTS: usize = 2000;

#[derive(Default)]
struct Figures {
    /// Dependencies from the registry.
    crates: BTreeSet<String>,
    build: Duration,
    program: u64,
    memory: u64,
    /// After a CPU and a heap profile, whose names were looked up.
    memory_profiled: u64,
}

pub(super) fn run(options: &Options) -> Result<Section, Failure> {
    let mut figures: [Figures; 2] = Default::default();
    for (at, (title, features)) in SERVICES.into_iter().enumerate() {
        run::heading(title);
        figures[at] = measure(features, if options.quick { 1 } else { options.rounds })?;
    }
    Ok(section(&figures, options))
}

fn measure(features: &[&str], rounds: usize) -> Result<Figures, Failure> {
    let target = folder()?.join("adds");
    let mut builds = Vec::new();
    for _ in 0..rounds {
        // Everything is compiled each time.
        let _ = std::fs::remove_dir_all(&target);
        let mut build = cargo("build", features);
        build.args(["--release", "--target-dir"]).arg(&target);
        // The default profile, which the workspace changes.
        build.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        builds.push(cost(&mut build)?.cpu);
    }
    let program = target.join("release").join(PACKAGE);
    let bytes = std::fs::metadata(&program).map_err(|error| Failure::failed(error.to_string()))?.len();
    let memory: Vec<(u64, u64)> =
        (0..rounds).map(|_| memory_of(&program, features)).collect::<Result<_, _>>()?;
    Ok(Figures {
        crates: crates(features)?,
        build: median(builds),
        program: bytes,
        memory: median(memory.iter().map(|memory| memory.0)),
        memory_profiled: median(memory.iter().map(|memory| memory.1)),
    })
}

fn cargo(verb: &str, features: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args([verb, "--manifest-path", "bench/Cargo.toml", "--package", PACKAGE, "--quiet"]).args(features);
    cargo
}

/// Returns the crates of the registry that a build compiles.
fn crates(features: &[&str]) -> Result<BTreeSet<String>, Failure> {
    let mut tree = cargo("tree", features);
    let tree = run::output(tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]))?;
    // Those of the repository have their path after their version.
    let others = tree.lines().filter(|line| !line.contains('/'));
    Ok(others.map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

/// Returns the memory of a service after some requests, and after profiles were taken of it.
fn memory_of(program: &Path, features: &[&str]) -> Result<(u64, u64), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", program.display()));
    let mut service = Process(Command::new(program).stdout(Stdio::piped()).spawn().map_err(failed)?);
    let mut address = String::new();
    if let Some(output) = service.0.stdout.take() {
        BufReader::new(output).read_line(&mut address).map_err(failed)?;
    }
    let get = |path: &str| get(address.trim(), path).map_err(failed);
    for _ in 0..REQUESTS {
        get("/")?;
    }
    let memory = service.resident_bytes()?;
    if !features.is_empty() {
        get("/debug/pprof/profile?seconds=1")?;
        get("/debug/pprof/heap")?;
    }
    for _ in 0..REQUESTS {
        get("/")?;
    }
    Ok((memory, service.resident_bytes()?))
}

fn get(address: &str, path: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    match answer.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("{path}: {}", String::from_utf8_lossy(&answer)))),
    }
}

fn section(figures: &[Figures; 2], options: &Options) -> Section {
    let rows = SERVICES.iter().zip(figures).map(|((name, _), figures)| {
        vec![
            (*name).to_owned(),
            figures.crates.len().to_string(),
            seconds(figures.build),
            megabytes(figures.program),
            megabytes(figures.memory),
            megabytes(figures.memory_profiled),
        ]
    });
    let [without, with] = figures;
    let added: Vec<&str> =
        with.crates.difference(&without.crates).map(|name| name.split(' ').next().unwrap_or(name)).collect();
    let more = |of: fn(&Figures) -> u64| Some((of(with) as f64 - of(without) as f64) / 1e6);
    let build = with.build.as_secs_f64() - without.build.as_secs_f64();
    Section {
        title: "adds: what the library adds to a service".to_owned(),
        about: format!(
            "A minimal service with axum's and tokio's usual features, and the same with flamelet as the \
             README shows it, with its\ndefault features. CPU time of a release build from scratch (the \
             median of {}); the program as cargo's release profile\nbuilds it; resident memory after \
             {REQUESTS} requests, and after a CPU and a heap profile with names. Crates are those of\nthe \
             registry: flamelet's own are six more. Added: {}.",
            options.rounds,
            added.join(", ")
        ),
        columns: vec!["service", "crates", "CPU to build", "program", "memory", "memory after profiles"],
        rows: rows.collect(),
        goals: vec![
            at_most("crates", Some(added.len() as f64), 12.0, ""),
            at_most("CPU seconds of build", Some(build), 90.0, "s"),
            at_most("program", more(|figures| figures.program), 3.1, "MB"),
            at_most("memory after profiles", more(|figures| figures.memory_profiled), 7.0, "MB"),
        ],
    }
}
