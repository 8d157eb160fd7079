//! `flamelet demo`: a busy service, profiled through the same API that a user would use.

mod live;
mod load;
mod service;

use std::path::{Path, PathBuf};

use flamelet::Profiler;
use flamelet_profile::Profile;
use flamelet_report::ReportOptions;
use flamelet_report::flame::FlameOptions;
use flamelet_view::{ServeOptions, Source, Taken};

use crate::args::{DemoArgs, Picture};
use crate::error::{About, Failure, Result};
use crate::progress::Waiting;
use crate::report_job::{Ask, Question, answer_to};
use crate::source::SymbolOptions;

/// What the demo found out.
struct Found {
    cpu: Profile,
    heap: Profile,
    lifetime: Profile,
    growth: Profile,
}

pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    // Now, and not when there is something to lose.
    std::fs::create_dir_all(&args.output).about(args.output.display())?;
    let profiler = Profiler::builder().name("demo").start().map_err(|error| failure(&error))?;
    let service = service::start(profiler.clone())?;
    note!("A small service runs at {} under load.", service.endpoints());
    let found = profile(&profiler, &service, args)?;
    let files = keep(&args.output, &found)?;
    show_top(&found.cpu)?;
    files.iter().for_each(|file| note!("Kept {}", file.display()));
    if args.once {
        note!("Look at them with: flamelet view {}", args.output.display());
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
fn profile(profiler: &Profiler, service: &service::Service, args: &DemoArgs) -> Result<Found> {
    let load = load::Load::start(service.address())?;
    let what = format!("Profiling its CPU for {} s", args.duration.as_secs_f64());
    note!("{what} …");
    let before = profiler.heap().map_err(|error| failure(&error))?;
    let waiting = Waiting::start(&what, Some(args.duration));
    let cpu = profiler.cpu(args.duration).run().map_err(|error| failure(&error))?;
    drop(waiting);
    let after = profiler.heap().map_err(|error| failure(&error))?;
    let requests = load.stop();
    note!("It answered {requests} requests meanwhile.");
    let growth = after.growth(&before);
    Ok(Found { cpu, heap: after.in_use(), lifetime: after.lifetime(), growth })
}

/// Writes the profiles, and the CPU profile as a page to send to a colleague.
fn keep(folder: &Path, found: &Found) -> Result<Vec<PathBuf>> {
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
