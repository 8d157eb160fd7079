//! `flamelet recover`: the heap profile of a process that was killed.

use flamelet_profile::pprof;

use crate::args::RecoverArgs;
use crate::error::{About, Result};
use crate::output;

pub(crate) fn run(args: &RecoverArgs) -> Result<()> {
    // Said here, in our words, of a file that is not there.
    let previous = flamelet::heap::previous_file(&args.file);
    if previous.is_file() {
        note!("What the process before the last start left is in {}", previous.display());
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
