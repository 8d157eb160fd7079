//! The arguments that say which profiles to open, and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use flamelet_profile::Limits;
use flamelet_profile::budget::parse_size;

use super::values::existing_path;
use crate::error::Result;
use crate::profiles::collected::Which;
use crate::profiles::fetch::{self, FetchOptions};
use crate::profiles::history::{Range, parse_moment};
use crate::profiles::{SourceOptions, SymbolOptions};

/// The profiles of a report.
#[derive(Args, Clone)]
pub(crate) struct Sources {
    /// Files, '-' (standard input), folders with a history, or URLs of services; several are merged
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<String>,
}

/// Profiles, and the file that is made of them.
#[derive(Args)]
pub(crate) struct SavedArgs {
    #[command(flatten)]
    sources: Sources,
    /// Write to this file [default: standard output, unless that is a terminal]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl SavedArgs {
    /// Returns the names of the profiles.
    pub(crate) fn sources(&self) -> Vec<String> {
        self.sources.sources.clone()
    }

    /// Writes the profile that these options open.
    pub(crate) fn save(&self, options: &SourceOptions) -> Result<()> {
        options.save(self.output.as_deref())
    }
}

/// How a service is asked.
#[derive(Args, Clone, Default)]
pub(crate) struct FetchArgs {
    #[arg(long, value_name = "N", help_heading = "Fetch",
          help = format!("Profile the service for this many seconds [default: {} for CPU profiles]", fetch::CPU_SECONDS))]
    seconds: Option<u64>,
    #[arg(long, value_name = "N", help_heading = "Fetch",
          help = format!("Wait this many seconds for an answer [default: {}]", fetch::USUAL_WAIT))]
    timeout: Option<u64>,
    /// Send a header, 'Name: value' (may be given several times)
    #[arg(long, value_name = "HEADER", help_heading = "Fetch")]
    header: Vec<String>,
    /// Trust this CA certificate (PEM file)
    #[arg(long, value_name = "FILE", alias = "tls_ca", help_heading = "Fetch")]
    tls_ca: Option<PathBuf>,
    /// Send this client certificate (PEM file)
    #[arg(long, value_name = "FILE", alias = "tls_cert", requires = "tls_key", help_heading = "Fetch")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM file)
    #[arg(long, value_name = "FILE", alias = "tls_key", requires = "tls_cert", help_heading = "Fetch")]
    tls_key: Option<PathBuf>,
    /// Do not verify the service's certificate
    #[arg(long, help_heading = "Fetch")]
    insecure: bool,
}

/// Which part of a history.
#[derive(Args, Clone, Default)]
pub(crate) struct RangeArgs {
    /// For a folder with a history, or a service that keeps one: the start of the range, such as -2h or
    /// 2026-11-15T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true, help_heading = "History")]
    from: Option<i64>,
    /// The end of the range [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_moment, allow_hyphen_values = true, help_heading = "History")]
    to: Option<i64>,
    /// For the folder or bucket of `flamelet collect`: which service
    #[arg(long, value_name = "NAME", help_heading = "History")]
    service: Option<String>,
    /// For the folder or bucket of `flamelet collect`: which profile, such as cpu or heap [default: cpu]
    #[arg(long, value_name = "NAME", help_heading = "History")]
    profile: Option<String>,
}

impl RangeArgs {
    pub(crate) fn which(&self) -> Which {
        Which { service: self.service.clone(), profile: self.profile.clone() }
    }

    pub(crate) fn range(&self) -> Range {
        Range { from: self.from, to: self.to }
    }
}

/// Where names come from.
#[derive(Args, Clone, Default)]
pub(crate) struct BinaryArgs {
    /// Take symbols from this binary, debug file or folder
    #[arg(long, value_name = "PATH", value_parser = existing_path(), value_hint = ValueHint::AnyPath,
          help_heading = "Symbols")]
    pub(crate) binary: Vec<PathBuf>,
}

/// Where names come from, and when.
#[derive(Args, Clone, Default)]
pub(crate) struct SymbolArgs {
    #[command(flatten)]
    binaries: BinaryArgs,
    /// When to look up symbols: auto (where names are missing), force (everywhere) or none
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "HOW",
        help_heading = "Symbols"
    )]
    symbolize: Symbolize,
}

/// When to look for names.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Symbolize {
    // The values have no help of their own, which would double the length of every `--help`.
    #[default]
    Auto,
    Force,
    None,
}

/// A cap on what may be read.
#[derive(Args, Clone)]
pub(crate) struct MemoryArgs {
    /// Limit the memory for reading profiles, such as 512M or 4GiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_limits, alias = "max_memory")]
    max_memory: Option<Limits>,
}

impl MemoryArgs {
    pub(crate) fn limits(&self) -> Limits {
        self.max_memory.unwrap_or_default()
    }
}

/// Reads a memory size; a bare number is in GiB.
pub(crate) fn parse_limits(text: &str) -> std::result::Result<Limits, String> {
    let bytes = parse_size(text).ok_or("give a size such as 512M or 4GiB")?;
    Ok(Limits::of_memory(bytes))
}

/// How profiles are opened, one by one.
#[derive(Args, Clone)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

/// How profiles are opened, and what is subtracted from them.
#[derive(Args, Clone)]
pub(crate) struct SourceArgs {
    /// Subtract these profiles
    #[arg(long, value_name = "SOURCE", help_heading = "Compare")]
    base: Vec<String>,
    /// Compare with these profiles; percentages are relative to them
    #[arg(long, value_name = "SOURCE", alias = "diff_base", help_heading = "Compare")]
    diff_base: Vec<String>,
    /// Scale the profile to the total of the base
    #[arg(long, help_heading = "Compare")]
    normalize: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl FetchArgs {
    pub(crate) fn options(&self) -> FetchOptions {
        FetchOptions {
            seconds: self.seconds,
            timeout: self.timeout,
            headers: self.header.clone(),
            tls_ca: self.tls_ca.clone(),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            insecure: self.insecure,
            ..FetchOptions::default()
        }
    }
}

impl SymbolArgs {
    pub(crate) fn options(&self) -> SymbolOptions {
        SymbolOptions {
            skip: self.symbolize == Symbolize::None,
            force: self.symbolize == Symbolize::Force,
            binaries: self.binaries.binary.clone(),
            only_below: None,
        }
    }
}

impl ReadArgs {
    pub(crate) fn options(&self, sources: Vec<String>) -> SourceOptions {
        SourceOptions {
            sources,
            fetch: self.fetch.options(),
            symbols: self.symbols.options(),
            limits: self.memory.limits(),
            ..SourceOptions::default()
        }
    }
}

impl SourceArgs {
    pub(crate) fn options(&self, sources: Vec<String>) -> SourceOptions {
        SourceOptions {
            base: self.base.clone(),
            diff_base: self.diff_base.clone(),
            normalize: self.normalize,
            ..self.read.options(sources)
        }
    }
}
