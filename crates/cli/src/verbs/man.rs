//! `flamelet man`: pages generated from the command line definition, so they are never out of date.

use std::path::{Path, PathBuf};

use clap::{Command, ValueHint};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::guide::{self, Guide};
use crate::error::{About, Failure, Result};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder, which is created if necessary
    #[arg(value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Write man pages into a folder",
        examples: &[("flamelet man /usr/local/share/man/man1", "then: man flamelet-top")],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = args.folder.as_path();
    let name = folder.display();
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::new(format!("{name}: not a folder; give a folder for the man pages")));
    }
    std::fs::create_dir_all(folder).about(name)?;
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let others: Vec<String> =
        command.get_subcommands().map(|verb| format!("flamelet-{}", verb.get_name())).collect();
    for (verb, (_, guide)) in command.get_subcommands().zip(super::guides()) {
        write_page(folder, verb, &guide, &["flamelet".to_owned()])?;
    }
    write_page(folder, &command, &super::guide(), &others)
}

fn write_page(folder: &Path, command: &Command, guide: &Guide, related: &[String]) -> Result<()> {
    let version = format!("flamelet {}", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(version).manual("flamelet");
    let path = folder.join(page.get_filename());
    output::write(Some(&path), |mut out| {
        page.render_title(&mut out)?;
        page.render_name_section(&mut out)?;
        page.render_synopsis_section(&mut out)?;
        page.render_description_section(&mut out)?;
        if command.get_arguments().any(|argument| !argument.is_hide_set()) {
            page.render_options_section(&mut out)?;
        }
        if command.has_subcommands() {
            page.render_subcommands_section(&mut out)?;
        }
        Ok(out.write_all(own_sections(guide, related).to_roff().as_bytes())?)
    })
}

/// Writes the sections besides the options.
fn own_sections(guide: &Guide, related: &[String]) -> Roff {
    let mut page = Roff::new();
    if !guide.more.is_empty() {
        page.control("SH", ["NOTES"]);
        verbatim(&mut page, &guide.more);
    }
    if !guide.examples.is_empty() {
        page.control("SH", ["EXAMPLES"]);
        for (line, what) in guide.examples {
            match *what {
                "" => page.control("PP", []).text([bold(*line)]),
                what => page.control("TP", []).text([bold(*line)]).text([roman(what)]),
            };
        }
    }
    page.control("SH", ["EXIT STATUS"]).text([roman(guide.exit_status.unwrap_or(guide::EXIT_STATUS))]);
    page.control("SH", ["ENVIRONMENT"]);
    for (name, what) in guide::ENVIRONMENT {
        page.control("TP", []).text([bold(*name)]).text([roman(*what)]);
    }
    let related: Vec<String> = related.iter().map(|name| format!("{name}(1)")).collect();
    page.control("SH", ["SEE ALSO"]).text([roman(related.join(", "))]);
    page
}

/// Writes lines without formatting.
fn verbatim(page: &mut Roff, text: &str) {
    page.control("nf", []);
    for line in text.lines() {
        match line {
            "" => page.control("sp", []),
            line => page.text([roman(line)]),
        };
    }
    page.control("fi", []);
}
