//! `flamelet fetch`: saves the answer of a service unchanged.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use flamelet_profile::pprof;

use crate::arguments::guide::Guide;
use crate::arguments::source::{FetchArgs, MemoryArgs, Sources};
use crate::error::{Failure, Result};
use crate::output;
use crate::profiles::{SourceOptions, SymbolOptions};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// Write to this file; '-' is standard output [default: profile-001.pb.gz or the next free number]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Fetch a profile from a service and save it unchanged",
        examples: &[
            ("flamelet fetch http://localhost:3000 --seconds 10 -o cpu.pb.gz", "10 s of CPU time"),
            ("flamelet fetch http://localhost:3000/debug/pprof/heap", "saved as heap-001.pb.gz"),
        ],
        own_help: vec![("sources", "URLs of services; several profiles are merged".to_owned())],
        ..Guide::default()
    }
}

impl Args {
    /// Looks up no names: the profile is saved unchanged.
    fn options(&self) -> SourceOptions {
        SourceOptions {
            sources: self.sources.sources.clone(),
            fetch: self.fetch.options(),
            symbols: SymbolOptions { skip: true, ..SymbolOptions::default() },
            limits: self.memory.limits(),
            ..SourceOptions::default()
        }
    }
}

/// Saves the answer of the service unchanged, after checking that it is a profile.
pub(crate) fn run(args: &Args) -> Result<()> {
    let options = args.options();
    let [source] = options.sources.as_slice() else {
        return options.save(args.output.as_deref());
    };
    options.note_unused();
    output::check(args.output.as_deref())?;
    let bytes = options.bytes(source)?;
    pprof::read(&bytes, &options.limits).map_err(|error| {
        Failure::new(format!("{source}: the answer is not a profile: {}", Failure::from(error)))
    })?;
    let path = args.output.clone().unwrap_or_else(|| free_name(source));
    output::write(Some(&path), |out| Ok(out.write_all(&bytes)?))?;
    if path != Path::new("-") {
        note!("Saved profile in {}", path.display());
    }
    Ok(())
}

/// Returns a name for a fetched profile that is still free: `profile-001.pb.gz`.
fn free_name(source: &str) -> PathBuf {
    let path = source.split('?').next().unwrap_or(source).trim_end_matches('/');
    let kind = path.rsplit('/').next().filter(|kind| kind.chars().all(char::is_alphanumeric));
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or("profile");
    let names = (1..).map(|number| PathBuf::from(format!("{kind}-{number:03}.pb.gz")));
    names.into_iter().find(|path| !path.exists()).expect("some number is free")
}
