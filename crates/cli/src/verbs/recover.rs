//! `flamelet recover`: the heap profile of a process that was killed.

use std::path::PathBuf;

use clap::ValueHint;
use flamelet_profile::pprof;

use super::record::HEAP_FILE;

use crate::arguments::guide::Guide;
use crate::arguments::source::SymbolArgs;
use crate::error::{About, Result};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file given to `heap_recovery_file`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Write to this file
    #[arg(short, long, value_name = "FILE", default_value = HEAP_FILE, value_hint = ValueHint::FilePath)]
    output: PathBuf,
    #[command(flatten)]
    symbols: SymbolArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Make a heap profile from the recovery file of a killed service",
        examples: &[
            ("flamelet recover /var/lib/service/heap.ledger", "writes heap.pb.gz"),
            ("flamelet recover heap.ledger --binary ./service -o oom.pb.gz", "with symbols from this binary"),
        ],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Opened here for our own error message if the file does not exist.
    let previous = flamelet::heap::previous_file(&args.file);
    if previous.is_file() {
        note!("The recovery file of the previous process is {}", previous.display());
    }
    std::fs::File::open(&args.file).about(args.file.display())?;
    let mut profile = flamelet::heap::recover(&args.file).about(args.file.display())?;
    let mut notes = Vec::new();
    args.symbols.options().apply(&mut profile, &mut notes);
    notes.iter().for_each(|note| note!("{note}"));
    output::write(Some(&args.output), |out| Ok(pprof::write_gzip(&profile, out)?))?;
    note!("Wrote {}", args.output.display());
    Ok(())
}
