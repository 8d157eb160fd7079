//! `flamelet push`: sends profiles to a Pyroscope server.

use flamelet_profile::Profile;
use flamelet_remote::push;

use crate::arguments::guide::Guide;
use crate::arguments::source::{FetchArgs, MemoryArgs, Sources, SymbolArgs};
use crate::error::{Failure, Result};
use crate::profiles::SourceOptions;
use crate::profiles::fetch;

/// How much of an error message from the server is shown.
const MAX_MESSAGE: usize = 300;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// The URL of the Pyroscope server, such as http://localhost:4040
    #[arg(long, value_name = "URL")]
    to: String,
    /// The name of the service (the label service_name)
    #[arg(long, value_name = "NAME")]
    service: String,
    /// Add a label, as name=value (may be given several times)
    #[arg(long, value_name = "LABEL", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// The tenant (the header X-Scope-OrgID)
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    symbols: SymbolArgs,
    #[command(flatten)]
    memory: MemoryArgs,
}

impl Args {
    fn options(&self) -> SourceOptions {
        SourceOptions {
            sources: self.sources.sources.clone(),
            fetch: self.fetch.options(),
            symbols: self.symbols.options(),
            limits: self.memory.limits(),
            ..SourceOptions::default()
        }
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Send profiles to a Pyroscope server",
        examples: &[
            (
                "flamelet push cpu.pb.gz --to http://localhost:4040 --service checkout",
                "one file, as the service checkout",
            ),
            (
                "flamelet push http://localhost:3000 --seconds 10 --to http://localhost:4040 --service checkout",
                "a new profile of a service",
            ),
            (
                "flamelet push '/var/lib/checkout/profiles?from=-10m' --to http://localhost:4040 --service checkout",
                "ten minutes of a history",
            ),
            (
                "flamelet push cpu.pb.gz --to https://host --service a --header 'Authorization: Bearer TOKEN'",
                "with a token",
            ),
        ],
        ..Guide::default()
    }
}

fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Sends each source as a profile of its own.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut options = args.options();
    options.take_binary();
    if let Some(tenant) = &args.tenant {
        options.fetch.headers.push(format!("X-Scope-OrgID: {tenant}"));
    }
    let url = format!("{}{}", args.to.trim_end_matches('/'), push::PYROSCOPE_PATH);
    for source in &options.sources {
        let mut notes = Vec::new();
        let profile = options.open_one(source, &mut notes)?;
        notes.iter().for_each(|note| note!("{note}"));
        let name = name_of(&profile);
        let body = push::pyroscope(&profile, name, &args.service, &args.label)?;
        let (status, answer) = fetch::post(&url, "application/proto", &body, &options.fetch)?;
        if !(200..300).contains(&status) {
            let shown: String = answer.trim().chars().take(MAX_MESSAGE).collect();
            return Err(Failure::new(format!("{url}: the server answered {status}: {shown}")));
        }
        note!("Pushed {source} as {name} of {}", args.service);
    }
    Ok(())
}

/// Returns Pyroscope's name for what a profile measures.
fn name_of(profile: &Profile) -> &'static str {
    let has = |kind: &str| profile.sample_types().iter().any(|value| profile.string(value.kind) == kind);
    match () {
        () if has("cpu") => "process_cpu",
        () if has("inuse_space") || has("alloc_space") => "memory",
        () if has("contentions") => "block",
        () => "process_cpu",
    }
}
