//! `flamelet flame`, `graph` and `dot`: pictures, and what their files may be called.

use std::path::Path;

use crate::args::{FlameArgs, GraphArgs, Picture};
use crate::error::{Failure, Result};
use crate::report_job::Question;

pub(crate) fn run(args: FlameArgs) -> Result<()> {
    let picture = match args.format {
        Some(picture) => picture,
        None => by_name(args.output())?,
    };
    args.job(picture).run()
}

/// A picture, unless the output's name asks for Graphviz's text or the page.
pub(crate) fn graph(args: GraphArgs) -> Result<()> {
    let question = match args.output().and_then(ending) {
        Some("dot" | "gv") => Question::Dot,
        Some("html" | "htm") => Question::Flame(Picture::Html, Box::default()),
        None | Some("svg") => Question::Graph,
        Some(_) => {
            return Err(unknown(args.output(), "a call graph is SVG, DOT or HTML", ".svg, .dot or .html"));
        }
    };
    args.job(question).run()
}

pub(crate) fn dot(args: GraphArgs) -> Result<()> {
    match args.output().and_then(ending) {
        Some("svg" | "png" | "pdf" | "html" | "htm" | "gif" | "ps" | "jpg") => Err(unknown(
            args.output(),
            "this is text for Graphviz; draw it with `flamelet graph`",
            ".dot or .gv",
        )),
        _ => args.job(Question::Dot).run(),
    }
}

/// Without a name, or with one that says nothing, it is the picture.
fn by_name(output: Option<&Path>) -> Result<Picture> {
    match output.and_then(ending) {
        Some("html" | "htm") => Ok(Picture::Html),
        None | Some("svg") => Ok(Picture::Svg),
        Some(_) => {
            Err(unknown(output, "a flame graph is SVG or HTML", ".svg or .html, or say which with --format"))
        }
    }
}

fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

fn unknown(output: Option<&Path>, what: &str, endings: &str) -> Failure {
    let name = output.unwrap_or(Path::new("-")).display();
    Failure::new(format!("{name}: {what}; end the name in {endings}"))
}
