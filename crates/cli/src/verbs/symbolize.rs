//! `flamelet symbolize`: fills in names, files and lines.

use crate::arguments::guide::Guide;
use crate::arguments::source::{BinaryArgs, FetchArgs, MemoryArgs, SavedArgs};
use crate::error::Result;
use crate::profiles::{SourceOptions, SymbolOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    saved: SavedArgs,
    /// Also look up addresses that already have names
    #[arg(long, help_heading = "Symbols")]
    force: bool,
    #[command(flatten)]
    binaries: BinaryArgs,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Add function names, files and lines to a profile",
        examples: &[(
            "flamelet symbolize raw.pb.gz --binary ./service.debug -o named.pb.gz",
            "names from a debug file",
        )],
        ..Guide::default()
    }
}

impl Args {
    fn options(&self) -> SourceOptions {
        let binaries = self.binaries.binary.clone();
        SourceOptions {
            sources: self.saved.sources(),
            fetch: self.fetch.options(),
            symbols: SymbolOptions { skip: false, force: self.force, binaries, ..SymbolOptions::default() },
            limits: self.memory.limits(),
            ..SourceOptions::default()
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.saved.save(&args.options())
}
