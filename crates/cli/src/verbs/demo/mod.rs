//! `flamelet demo`: a busy service, profiled through the public API.

mod live;
mod load;
mod service;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use flamelet::Profiler;
use flamelet_profile::Profile;
use flamelet_report::ReportOptions;
use flamelet_report::flame::FlameOptions;
use flamelet_view::{ServeOptions, Source, Taken};

use crate::arguments::guide::Guide;
use crate::arguments::values::seconds;
use crate::error::{About, Failure, Result};
use crate::job::{Ask, Picture, Question, answer_to};
use crate::profiles::SymbolOptions;
use crate::progress::ProgressLine;

/// The demo's result.
struct DemoProfiles {
    cpu: Profile,
    heap: Profile,
    lifetime: Profile,
    growth: Profile,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Exit when the files are written instead of opening the viewer
    #[arg(long)]
    once: bool,
    /// How long to profile, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: std::time::Duration,
    /// Write the files to this folder
    #[arg(short, long, value_name = "FOLDER", default_value = "flamelet-demo", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// The port of the viewer; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print the viewer's address without opening a browser
    #[arg(long, alias = "no_browser")]
    no_browser: bool,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Profile a small built-in service and open the result",
        examples: &[
            ("flamelet demo", "profile it, then open the viewer"),
            ("flamelet demo --once -o /tmp/demo", "only write the files"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Create the folder now, before there is a profile to lose.
    std::fs::create_dir_all(&args.output).about(args.output.display())?;
    let profiler = Profiler::builder().name("demo").start().map_err(|error| failure(&error))?;
    let service = service::start(profiler.clone())?;
    note!("A small service is running at {} under load.", service.endpoints());
    let found = profile(&profiler, &service, args)?;
    let files = keep(&args.output, &found)?;
    show_top(&found.cpu)?;
    files.iter().for_each(|file| note!("Kept {}", file.display()));
    if args.once {
        note!("Open them with: flamelet view {}", args.output.display());
        return Ok(());
    }
    let taken = [
        ("heap growth", found.growth),
        ("heap lifetimes", found.lifetime),
        ("heap", found.heap),
        ("cpu", found.cpu),
    ];
    let taken = taken.map(|(name, profile)| Taken { name: name.to_owned(), profile }).into();
    let source = Source::live(taken, live::Demo::new(profiler, service.address()));
    let source = source.with_code(super::view::code_options(&SymbolOptions::default()));
    super::view::serve(source, &ServeOptions { port: args.port, ..ServeOptions::default() }, !args.no_browser)
}

fn failure(error: &flamelet::Error) -> Failure {
    Failure::new(error.to_string())
}

/// Profiles the service while clients keep it busy.
fn profile(profiler: &Profiler, service: &service::DemoService, args: &Args) -> Result<DemoProfiles> {
    let load = load::Load::start(service.address())?;
    let what = format!("Profiling its CPU for {} s", args.duration.as_secs_f64());
    note!("{what} …");
    let before = profiler.heap().map_err(|error| failure(&error))?;
    let waiting = ProgressLine::start(&what, Some(args.duration));
    let cpu = profiler.cpu(args.duration).run().map_err(|error| failure(&error))?;
    drop(waiting);
    let after = profiler.heap().map_err(|error| failure(&error))?;
    let requests = load.stop();
    note!("The service answered {requests} requests meanwhile.");
    let growth = after.growth(&before);
    Ok(DemoProfiles { cpu, heap: after.in_use(), lifetime: after.lifetime(), growth })
}

/// Writes the profiles, and the CPU profile as a page to send to a colleague.
fn keep(folder: &Path, found: &DemoProfiles) -> Result<Vec<PathBuf>> {
    let flame = |picture| {
        let options = FlameOptions { title: "flamelet demo".into(), ..FlameOptions::default() };
        Question::Flame(picture, Box::new(options))
    };
    let kept = [
        ("cpu.pb.gz", Question::Proto, &found.cpu),
        ("heap.pb.gz", Question::Proto, &found.heap),
        ("heap-lifetimes.pb.gz", Question::Proto, &found.lifetime),
        ("heap-growth.pb.gz", Question::Proto, &found.growth),
        ("cpu.html", flame(Picture::Html), &found.cpu),
    ];
    let (options, symbols) = (ReportOptions::default(), SymbolOptions::default());
    let ask = Ask { options: &options, symbols: &symbols, json: false };
    let write = |(name, question, profile): (&str, Question, &Profile)| {
        let path = folder.join(name);
        answer_to(&question, profile.clone(), &ask, Some(&path)).map(|()| path)
    };
    kept.into_iter().map(write).collect()
}

fn show_top(cpu: &Profile) -> Result<()> {
    let options = ReportOptions { node_count: Some(15), ..ReportOptions::default() };
    let symbols = SymbolOptions::default();
    let ask = Ask { options: &options, symbols: &symbols, json: false };
    answer_to(&Question::Top, cpu.clone(), &ask, None)
}
