//! `flamelet convert`: from any format to any other.

mod made;

use std::path::PathBuf;

use clap::ValueHint;
use flamelet_formats::Format;
use flamelet_report::ReportOptions;

use crate::arguments::guide::Guide;
use crate::arguments::source::{SourceArgs, Sources};
use crate::error::{Failure, Result};
use crate::job::{Ask, Question, answer_to};
use crate::output;
use crate::profiles::SourceOptions;
pub(super) use made::Made;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Write to this file; its extension selects the format unless --to is given [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// The format [default: from the extension of the output file]
    #[arg(long, value_name = "FORMAT", value_parser = made::parser())]
    to: Option<Made>,
    #[command(flatten)]
    source: SourceArgs,
}

impl Args {
    fn options(&self) -> SourceOptions {
        self.source.options(self.sources.sources.clone())
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Convert a profile to another format",
        examples: &[
            ("flamelet convert perf.data -o cpu.speedscope.json", "for speedscope"),
            ("flamelet convert cpu.pb.gz --to folded", "one line per stack, on standard output"),
        ],
        more: made::table(),
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let made = args.to.or_else(|| Made::for_output(args.output.as_deref()?));
    let made = made.ok_or_else(|| {
        let names = Made::names().join(", ");
        Failure::new(format!("unknown output format; give one with --to: {names}"))
    })?;
    let question = match made {
        Made::Format(format) => return to_format(args, format),
        Made::Flame(picture) => Question::Flame(picture, Box::default()),
        Made::Dot => Question::Dot,
    };
    let options = args.options();
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    let ask = Ask { options: &ReportOptions::default(), symbols: &options.symbols, json: false };
    answer_to(&question, opened.profile, &ask, args.output.as_deref())
}

fn to_format(args: &Args, format: Format) -> Result<()> {
    let mut options = args.options();
    options.without_times = !format.holds_times();
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    let mut dropped = Vec::new();
    output::write(args.output.as_deref(), |mut out| {
        dropped = flamelet_formats::write(
            &opened.profile,
            format,
            &mut out,
            &flamelet_formats::FormatOptions::default(),
        )
        .map_err(|error| Failure::new(error.to_string()))?;
        Ok(())
    })?;
    dropped.iter().for_each(|note| note!("{note}"));
    Ok(())
}
