//! `flamelet graph`: the call graph as a picture.

use crate::arguments::guide::Guide;
use crate::arguments::options::Dot;
use crate::arguments::report::DataReport;
use crate::error::Result;
use crate::job::{Picture, Question};
use crate::output;

pub(crate) type Args = DataReport<Dot>;

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Draw the call graph: SVG, or DOT when the output's name ends in .dot",
        examples: &[
            ("flamelet graph cpu.pb.gz -o cpu.svg", "boxes and arrows, without Graphviz"),
            ("flamelet graph perf.data --call-tree -o cpu.svg", "a tree, from perf's file"),
        ],
        ..Guide::default()
    }
}

/// Draws a picture, unless the output's extension asks for Graphviz's text or the page.
pub(crate) fn run(args: &Args) -> Result<()> {
    let question = match args.output().and_then(output::extension) {
        Some("dot" | "gv") => Question::Dot,
        Some("html" | "htm") => Question::Flame(Picture::Html, Box::default()),
        None | Some("svg") => Question::Graph,
        Some(_) => {
            let what = "a call graph is SVG, DOT or HTML";
            return Err(output::unknown_extension(args.output(), what, ".svg, .dot or .html"));
        }
    };
    args.answer(question)
}
