//! `flamelet recover`: the heap profile of a process that was killed.

use std::path::Path;

use flamelet_profile::pprof;

use crate::args::MergeArgs;
use crate::error::{About, Failure, Result};
use crate::output;

pub(crate) fn run(args: &MergeArgs) -> Result<()> {
    let [source] = args.sources.as_slice() else {
        return Err(Failure::new("give one file"));
    };
    let mut profile = flamelet::heap::recover(Path::new(source)).about(source)?;
    let mut notes = Vec::new();
    args.source.options(Vec::new()).symbols.apply(&mut profile, &mut notes);
    notes.iter().for_each(|note| eprintln!("{note}"));
    let path = args.output.clone().unwrap_or_else(|| "heap.pb.gz".into());
    output::write(Some(&path), |out| Ok(pprof::write_gzip(&profile, out)?))?;
    eprintln!("Wrote {}", path.display());
    Ok(())
}
