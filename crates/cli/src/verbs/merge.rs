//! `flamelet merge`: profiles in, one pprof file out.

use std::path::PathBuf;

use clap::ValueHint;

use crate::arguments::guide::Guide;
use crate::arguments::source::{SourceArgs, Sources};
use crate::error::Result;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Write to this file [default: standard output, unless that is a terminal]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Merge profiles into one file",
        examples: &[
            ("flamelet merge monday.pb.gz tuesday.pb.gz -o both.pb.gz", "add two profiles"),
            ("flamelet merge after.pb.gz --base before.pb.gz -o grown.pb.gz", "the difference"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.source.options(args.sources.sources.clone()).save(args.output.as_deref())
}
