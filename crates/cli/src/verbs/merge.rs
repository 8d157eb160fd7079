//! `flamelet merge`: profiles in, one pprof file out.

use crate::arguments::guide::Guide;
use crate::arguments::source::{SavedArgs, SourceArgs};
use crate::error::Result;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    saved: SavedArgs,
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
    args.saved.save(&args.source.options(args.saved.sources()))
}
