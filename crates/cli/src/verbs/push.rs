//! `flamelet push`: sends profiles to Pyroscope, Parca or a receiver of OTLP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flamelet_profile::Profile;
use flamelet_remote::push::{self, Protocol, Series, Verdict};

use crate::arguments::guide::Guide;
use crate::arguments::source::{FetchArgs, MemoryArgs, Sources, SymbolArgs};
use crate::error::{About, Failure, Result};
use crate::profiles::collected::{self, Which, collected_of};
use crate::profiles::history::{self, Part, Range, history_of};
use crate::profiles::{SourceOptions, fetch};

/// A history is sent as one profile per minute, so that the receiver can show its course.
const SLICE: i64 = 60_000_000_000;
/// How often a receiver that is busy is asked, and the first wait between two tries, which doubles.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// The receiver: pyroscope+http://HOST:4040, parca+http://HOST:7070 or otlp+http://HOST:4318; a plain URL is
    /// Pyroscope's
    #[arg(long, value_name = "URL")]
    to: String,
    /// The name of the service (the label service_name); of the folder of a collector, the service to send
    #[arg(long, value_name = "NAME")]
    service: String,
    /// Add a label, as name=value (may be given several times)
    #[arg(long, value_name = "LABEL", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Pyroscope's tenant (the header X-Scope-OrgID)
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Of a folder with a history, or of a collector: send only what is younger than this time, such as -1h
    #[arg(long, value_name = "TIME", value_parser = history::parse_moment, allow_hyphen_values = true)]
    from: Option<i64>,
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
            range: Range { from: self.from, to: None },
            fetch: self.fetch.options(),
            symbols: self.symbols.options(),
            limits: self.memory.limits(),
            ..SourceOptions::default()
        }
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "Send profiles to Pyroscope, Parca or an OTLP receiver",
        examples: &[
            (
                "flamelet push cpu.pb.gz --to http://localhost:4040 --service checkout",
                "one file to Pyroscope, as the service checkout",
            ),
            (
                "flamelet push http://localhost:3000 --seconds 10 --to parca+http://localhost:7070 --service checkout",
                "a new profile of a service, to Parca",
            ),
            (
                "flamelet push /var/lib/checkout/profiles --from -10m --to http://localhost:4040 --service checkout",
                "ten minutes of a history",
            ),
            (
                "flamelet push /opt/profiling/checkout --to otlp+http://localhost:4318 --service checkout",
                "the pprof files in a folder, to an OpenTelemetry collector",
            ),
            (
                "flamelet push /var/lib/flamelet --from -1h --service checkout --to http://localhost:4040",
                "an hour of a service from the folder of flamelet collect, profile by profile, with their labels",
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

/// Where profiles go.
struct Destination<'a> {
    protocol: Protocol,
    url: String,
    args: &'a Args,
    fetch: fetch::FetchOptions,
}

/// Sends each source; a folder of files as its files, a history minute by minute, and a collector's folder profile by
/// profile.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut options = args.options();
    options.take_binary();
    let (protocol, server) = Protocol::of(&args.to)?;
    if let Some(tenant) = &args.tenant {
        options.fetch.headers.push(format!("X-Scope-OrgID: {tenant}"));
    }
    let destination = Destination { protocol, url: protocol.url(server), args, fetch: options.fetch.clone() };
    for source in &options.sources {
        if let Some(found) = history_of(source, options.range) {
            push_history(&found?, &options, &destination)?;
        } else if let Some(found) = collected_of(source, options.range) {
            let (folder, range) = found?;
            push_collected(folder, range, &options, &destination)?;
        } else if Path::new(source).is_dir() {
            let files = files_in(Path::new(source))?;
            files.iter().try_for_each(|file| push_one(&file.to_string_lossy(), &options, &destination))?;
        } else {
            push_one(source, &options, &destination)?;
        }
    }
    Ok(())
}

fn push_one(source: &str, options: &SourceOptions, destination: &Destination<'_>) -> Result<()> {
    let mut notes = Vec::new();
    let profile = options.open_one(source, &mut notes)?;
    notes.iter().for_each(|note| note!("{note}"));
    let (name, requests) = destination.send(&profile)?;
    let requests = if requests == 1 { String::new() } else { format!(", in {requests} requests") };
    note!("Pushed {source} as {name} of {}{requests}", destination.args.service);
    Ok(())
}

fn push_history(part: &Part<'_>, options: &SourceOptions, destination: &Destination<'_>) -> Result<()> {
    let name = part.folder.display();
    let Some((first, last)) = history::extent(part, options.limits)? else {
        return Err(Failure::new(format!("{name}: the history has no window yet")));
    };
    let (mut sent, mut notes) = (0, Vec::new());
    let mut from = first;
    while from < last {
        let to = (from.div_euclid(SLICE) + 1) * SLICE;
        let slice = part.within(Range { from: Some(from), to: Some(to.min(last)) });
        if let Some(mut profile) = history::slice(&slice, options.limits, &mut notes)? {
            options.symbols.apply(&mut profile, &mut notes);
            destination.send(&profile)?;
            sent += 1;
        }
        from = to;
    }
    notes.dedup();
    notes.iter().for_each(|note| note!("{note}"));
    note!("Pushed {sent} minutes of {name} as {}", destination.args.service);
    Ok(())
}

fn push_collected(
    folder: &Path,
    range: Range,
    options: &SourceOptions,
    destination: &Destination<'_>,
) -> Result<()> {
    let which = Which { service: Some(destination.args.service.clone()), profile: None };
    let mut notes = Vec::new();
    let sent = collected::replay(folder, range, &which, options.limits, &mut |mut replayed| {
        options.symbols.apply(&mut replayed.profile, &mut notes);
        // What the command line says comes first: receivers take so many labels.
        let labels = [&destination.args.label[..], &replayed.labels].concat();
        destination.send_as(&replayed.name, &labels, &replayed.profile).map(|_| ())
    })?;
    notes.dedup();
    notes.iter().for_each(|note| note!("{note}"));
    note!("Pushed {sent} profiles of {} from {}", destination.args.service, folder.display());
    Ok(())
}

/// Returns the pprof files in a folder, by name.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).about(folder.display())? {
        let path = entry.about(folder.display())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && [".pb.gz", ".pb", ".pprof"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::new(format!("{}: there are no pprof files in this folder", folder.display())));
    }
    Ok(files)
}

impl Destination<'_> {
    /// Sends a profile, and returns its name there and how many requests it took.
    fn send(&self, profile: &Profile) -> Result<(&'static str, usize)> {
        let name = push::name_of(profile);
        Ok((name, self.send_as(name, &self.args.label, profile)?))
    }

    /// Sends a profile under a name and with labels, and returns how many requests it took.
    fn send_as(&self, name: &str, labels: &[(String, String)], profile: &Profile) -> Result<usize> {
        let series = Series { name, service: &self.args.service, labels };
        let bodies = self.protocol.bodies(profile, &series)?;
        bodies.iter().try_for_each(|body| self.send_body(body))?;
        Ok(bodies.len())
    }

    /// Sends one body. A receiver that is busy is asked again.
    fn send_body(&self, body: &[u8]) -> Result<()> {
        let url = &self.url;
        for attempt in 0..TRIES {
            let answer = fetch::post(url, self.protocol.headers(), body, &self.fetch)?;
            let is_last = attempt + 1 == TRIES || !matches!(answer.status, 429 | 502..=504);
            match push::judge(self.protocol, &answer) {
                Verdict::Accepted => return Ok(()),
                Verdict::Later(_, wait) if !is_last => {
                    std::thread::sleep(wait.unwrap_or(FIRST_WAIT * 2u32.pow(attempt)));
                }
                Verdict::Later(why, _) | Verdict::TooOld(why) | Verdict::Refused(why) => {
                    return Err(Failure::new(format!("{url}: the receiver answered with {why}")));
                }
            }
        }
        Ok(())
    }
}
