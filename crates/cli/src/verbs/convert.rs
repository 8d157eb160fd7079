//! `flamelet convert`: from any format to any other.

use std::path::Path;

use flamelet_formats::Format;
use flamelet_report::ReportOptions;

use crate::args::{ConvertArgs, Picture};
use crate::error::{Failure, Result};
use crate::output;
use crate::report_job::{Ask, Question, answer_to};

/// What can be made of a profile besides files that hold it.
const PICTURES: [&str; 3] = ["dot", "svg", "html"];

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let mut options = args.merge.source.options(args.merge.sources.clone());
    let output = args.merge.output.as_deref();
    let picture = picture(args, output);
    let format = if picture.is_none() { Some(format(args, output)?) } else { None };
    options.without_times = format.is_some_and(|format| !format.holds_times());
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| eprintln!("{note}"));
    if let Some(question) = picture {
        let ask = Ask { options: &ReportOptions::default(), symbols: &options.symbols, json: false };
        return answer_to(&question, opened.profile, &ask, output);
    }
    let Some(format) = format else { return Ok(()) };
    let mut dropped = Vec::new();
    output::write(output, |mut out| {
        dropped =
            flamelet_formats::write(&opened.profile, format, &mut out, &flamelet_formats::Options::default())
                .map_err(|error| Failure::new(error.to_string()))?;
        Ok(())
    })?;
    dropped.iter().for_each(|note| eprintln!("{note}"));
    Ok(())
}

/// A picture or a graph, when one is asked for by `--to` or by the output's name.
fn picture(args: &ConvertArgs, output: Option<&Path>) -> Option<Question> {
    let ending = || output.and_then(|path| path.extension()).and_then(|ending| ending.to_str());
    match args.to.as_deref().or_else(ending)? {
        "dot" => Some(Question::Dot),
        "svg" => Some(Question::Flame(Picture::Svg, Box::default())),
        "html" => Some(Question::Flame(Picture::Html, Box::default())),
        _ => None,
    }
}

fn format(args: &ConvertArgs, output: Option<&Path>) -> Result<Format> {
    let writable = || {
        let names = Format::all().iter().filter(|format| format.can_write()).map(|format| format.name());
        names.chain(PICTURES).collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = &args.to {
        let found = name.parse::<Format>().ok().filter(|format| format.can_write());
        return found.ok_or_else(|| Failure::new(format!("--to {name}: use one of {}", writable())));
    }
    let name = output.map(|path| path.to_string_lossy());
    name.as_deref().and_then(Format::for_output).filter(|format| format.can_write()).ok_or_else(|| {
        Failure::new(format!(
            "the output's name does not tell its format; use --to with one of {}",
            writable()
        ))
    })
}
