//! `flamelet graph`: the call graph as a picture.

use flamelet_report::flame::FlameOptions;

use crate::arguments::guide::Guide;
use crate::arguments::options::Dot;
use crate::arguments::report::{JsonArgs, MineArgs, ReportArgs};
use crate::arguments::source::Sources;
use crate::error::Result;
use crate::job::{Picture, Question};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Draw every function, instead of one box for the frames of others that lead to your code
    #[arg(long)]
    all_frames: bool,
    #[command(flatten)]
    mine: MineArgs,
    #[command(flatten)]
    report: ReportArgs<Dot>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Draw the call graph as SVG; as PNG, DOT or HTML if the output has that extension",
        examples: &[
            ("flamelet graph cpu.pb.gz -o cpu.svg", "without Graphviz"),
            ("flamelet graph perf.data --call-tree -o cpu.svg", "a tree, from a perf recording"),
        ],
        ..Guide::default()
    }
}

/// Draws a picture, unless the output's extension selects Graphviz's text or the page.
pub(crate) fn run(args: &Args) -> Result<()> {
    let question = match args.report.output().and_then(output::extension) {
        Some("dot" | "gv") => Question::Dot,
        Some("html" | "htm") => {
            let options = FlameOptions { everything: args.all_frames, ..FlameOptions::default() };
            Question::Flame(Picture::Html, Box::new(options))
        }
        None | Some("svg") => Question::Graph,
        Some("png") => Question::GraphPng,
        Some(_) => {
            let what = "unknown output extension";
            return Err(output::unknown_extension(args.report.output(), what, ".svg, .png, .dot or .html"));
        }
    };
    // A picture is folded; what is for other programs has pprof's numbers.
    let is_folded =
        matches!(question, Question::Graph | Question::GraphPng) && !args.json.json && !args.all_frames;
    let mut job = args.report.job(question, &args.sources.sources, args.json.json);
    job.options.folding.runtime |= is_folded;
    job.options.mine = args.mine.mine.clone();
    job.run()
}
