//! `flamelet completions` and `flamelet man`: made from the command line itself, so they cannot be stale.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::error::{About, Result};
use crate::output;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flamelet", &mut script);
    output::write(None, |out| Ok(out.write_all(&script)?))
}

pub(crate) fn pages(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).about(folder.display())?;
    clap_mangen::generate_to(Cli::command(), folder).about(folder.display())
}
