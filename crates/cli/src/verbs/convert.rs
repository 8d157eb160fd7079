//! `flamelet convert`: from any format to any other.

use std::path::Path;

use flamelet_formats::Format;

use crate::args::ConvertArgs;
use crate::error::{Failure, Result};
use crate::output;

pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let options = args.merge.source.options(args.merge.sources.clone());
    let output = args.merge.output.as_deref();
    let format = format(args, output)?;
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| eprintln!("{note}"));
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

fn format(args: &ConvertArgs, output: Option<&Path>) -> Result<Format> {
    let writable = || {
        let names = Format::all().iter().filter(|format| format.can_write()).map(|format| format.name());
        names.collect::<Vec<_>>().join(", ")
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
