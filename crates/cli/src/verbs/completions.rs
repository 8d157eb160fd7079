//! `flamelet completions`: generated from the command line definition, so they are never out of date.

use crate::arguments::guide::Guide;
use crate::error::Result;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to print completions for
    shell: clap_complete::Shell,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Print completions for your shell",
        examples: &[
            ("flamelet completions bash > /etc/bash_completion.d/flamelet", ""),
            ("flamelet completions zsh > /usr/local/share/zsh/site-functions/_flamelet", ""),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "flamelet", &mut script);
    output::write(None, |out| Ok(out.write_all(&script)?))
}
