//! `flamelet demo`: a busy service, profiled through the same API that a user would use.

mod load;
mod service;

use std::path::{Path, PathBuf};

use flamelet::Profiler;
use flamelet_profile::Profile;
use flamelet_report::ReportOptions;
use flamelet_report::flame::FlameOptions;

use crate::args::{DemoArgs, Picture};
use crate::error::{About, Failure, Result};
use crate::report_job::{Ask, Question, answer_to};
use crate::source::SymbolOptions;

pub(crate) fn run(args: &DemoArgs) -> Result<()> {
    let failure = |error: flamelet::Error| Failure::new(error.to_string());
    let profiler = Profiler::builder().name("demo").start().map_err(failure)?;
    let service = service::start(profiler.clone())?;
    let load = load::Load::start(service.address());
    let seconds = args.duration.as_secs_f64();
    eprintln!("A small service runs at http://{}/debug/pprof/ under load.", service.address());
    eprintln!("Profiling its CPU for {seconds} s …");
    let cpu = profiler.cpu(args.duration).run().map_err(failure)?;
    let heap = profiler.heap().map_err(failure)?.in_use();
    let requests = load.stop();
    eprintln!("It answered {requests} requests meanwhile.");
    let files = keep(&args.output, &cpu, &heap)?;
    show_top(&cpu)?;
    files.iter().for_each(|file| eprintln!("Kept {}", file.display()));
    if args.once {
        return Ok(());
    }
    let profiles = vec![("heap".to_string(), heap), ("cpu".to_string(), cpu)];
    super::view::serve(flamelet_view::Source::profiles(profiles), args.port, !args.no_browser)
}

/// Writes the profiles, and the CPU profile as a page to send to a colleague.
fn keep(folder: &Path, cpu: &Profile, heap: &Profile) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).about(folder.display())?;
    let flame = |picture| {
        let options = FlameOptions { title: "flamelet demo".into(), ..FlameOptions::default() };
        Question::Flame(picture, Box::new(options))
    };
    let kept = [
        ("cpu.pb.gz", Question::Proto, cpu),
        ("heap.pb.gz", Question::Proto, heap),
        ("cpu.html", flame(Picture::Html), cpu),
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
