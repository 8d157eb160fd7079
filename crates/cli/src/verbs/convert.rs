//! `flamelet convert`: from any format to any other.

use flamelet_formats::Format;
use flamelet_report::ReportOptions;

use crate::args::{ConvertArgs, Made};
use crate::error::{Failure, Result};
use crate::output;
use crate::report_job::{Ask, Question, answer_to};

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let made = args.to.or_else(|| Made::for_output(args.output.as_deref()?));
    let made = made.ok_or_else(|| {
        let names = Made::names().join(", ");
        Failure::new(format!("the output's name does not tell its format; use --to with one of {names}"))
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

fn to_format(args: &ConvertArgs, format: Format) -> Result<()> {
    let mut options = args.options();
    options.without_times = !format.holds_times();
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    let mut dropped = Vec::new();
    output::write(args.output.as_deref(), |mut out| {
        dropped =
            flamelet_formats::write(&opened.profile, format, &mut out, &flamelet_formats::Options::default())
                .map_err(|error| Failure::new(error.to_string()))?;
        Ok(())
    })?;
    dropped.iter().for_each(|note| note!("{note}"));
    Ok(())
}
