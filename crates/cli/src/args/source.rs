//! Where profiles come from, and the verbs that only pass them on.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::fetch::FetchOptions;
use crate::source::{SourceOptions, SymbolOptions};

/// Where profiles come from.
#[derive(Args, Clone, Default)]
pub(crate) struct SourceArgs {
    /// Subtract these profiles
    #[arg(long, value_name = "SOURCE", help_heading = "Compare")]
    base: Vec<String>,
    /// Compare with these profiles; percentages are of them
    #[arg(long, value_name = "SOURCE", alias = "diff_base", help_heading = "Compare")]
    diff_base: Vec<String>,
    /// Scale the profile so that its total equals the base's
    #[arg(long, help_heading = "Compare")]
    normalize: bool,
    /// Ask the service for this many seconds
    #[arg(long, value_name = "N", help_heading = "Fetch")]
    seconds: Option<u64>,
    /// Wait this many seconds for an answer
    #[arg(long, value_name = "N", help_heading = "Fetch")]
    timeout: Option<u64>,
    /// Send a header, as 'Name: value'
    #[arg(long, value_name = "HEADER", help_heading = "Fetch")]
    header: Vec<String>,
    /// Trust this certificate (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_ca", help_heading = "Fetch")]
    tls_ca: Option<PathBuf>,
    /// Show this certificate to the service (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_cert", requires = "tls_key", help_heading = "Fetch")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", alias = "tls_key", requires = "tls_cert", help_heading = "Fetch")]
    tls_key: Option<PathBuf>,
    /// Do not check the service's certificate
    #[arg(long, help_heading = "Fetch")]
    insecure: bool,
    /// Take symbols from this binary, debug file or folder
    #[arg(long, value_name = "PATH", help_heading = "Symbols")]
    binary: Vec<PathBuf>,
    /// Whether to look for names that the profile does not have
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Symbols")]
    symbolize: Symbolize,
    /// The most memory that a profile may take, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 2, alias = "max_memory")]
    max_memory: u64,
}

/// When to look for names.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Symbolize {
    /// For addresses without a name
    #[default]
    Auto,
    /// For all addresses, again
    Force,
    /// Never
    None,
}

/// `merge`, `symbolize` and `fetch`: profiles in, a pprof file out.
#[derive(Args, Clone)]
pub(crate) struct MergeArgs {
    /// Files, '-', or addresses of services
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) sources: Vec<String>,
    /// Write to this file; '-' is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// `convert`.
#[derive(Args, Clone)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    /// The format; without it, the output's name decides
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
}

impl SourceArgs {
    pub(crate) fn options(&self, sources: Vec<String>) -> SourceOptions {
        SourceOptions {
            sources,
            base: self.base.clone(),
            diff_base: self.diff_base.clone(),
            normalize: self.normalize,
            fetch: FetchOptions {
                seconds: self.seconds,
                timeout: self.timeout,
                headers: self.header.clone(),
                tls_ca: self.tls_ca.clone(),
                tls_cert: self.tls_cert.clone(),
                tls_key: self.tls_key.clone(),
                insecure: self.insecure,
                max_bytes: 0,
            },
            max_memory: self.max_memory,
            without_times: false,
            symbols: SymbolOptions {
                skip: self.symbolize == Symbolize::None,
                force: self.symbolize == Symbolize::Force,
                binaries: self.binary.clone(),
            },
        }
    }
}
