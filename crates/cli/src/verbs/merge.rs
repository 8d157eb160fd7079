//! `flamelet merge`, `symbolize` and `fetch`: profiles in, a pprof file out.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use flamelet_profile::pprof;

use crate::args::{FetchVerbArgs, MergeArgs, SymbolizeArgs};
use crate::error::{Failure, Result};
use crate::output;
use crate::source::SourceOptions;

pub(crate) fn merge(args: &MergeArgs) -> Result<()> {
    write_opened(&args.options(), args.output.as_deref())
}

pub(crate) fn symbolize(args: &SymbolizeArgs) -> Result<()> {
    write_opened(&args.options(), args.output.as_deref())
}

/// Keeps the answer of the service as it came, after checking that it is a profile.
pub(crate) fn fetch(args: &FetchVerbArgs) -> Result<()> {
    let options = args.options();
    let [source] = options.sources.as_slice() else {
        return write_opened(&options, args.output.as_deref());
    };
    options.note_unused();
    output::check(args.output.as_deref())?;
    let bytes = options.bytes(source)?;
    pprof::read(&bytes, &options.limits).map_err(|error| {
        Failure::new(format!("{source}: the answer is no profile: {}", Failure::from(error)))
    })?;
    let path = args.output.clone().unwrap_or_else(|| free_name(source));
    output::write(Some(&path), |out| Ok(out.write_all(&bytes)?))?;
    if path != Path::new("-") {
        note!("Saved profile in {}", path.display());
    }
    Ok(())
}

/// A name for a fetched profile that is not taken yet: `profile-001.pb.gz`.
fn free_name(source: &str) -> PathBuf {
    let path = source.split('?').next().unwrap_or(source).trim_end_matches('/');
    let kind = path.rsplit('/').next().filter(|kind| kind.chars().all(char::is_alphanumeric));
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or("profile");
    let names = (1..).map(|number| PathBuf::from(format!("{kind}-{number:03}.pb.gz")));
    names.into_iter().find(|path| !path.exists()).expect("some number is free")
}

fn write_opened(options: &SourceOptions, path: Option<&Path>) -> Result<()> {
    if path.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::new("a profile is binary; name a file with -o FILE, or pipe it"));
    }
    output::check(path)?;
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    output::write(path, |out| Ok(pprof::write_gzip(&opened.profile, out)?))
}
