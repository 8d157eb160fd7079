//! `flamelet push`: sends profiles to Pyroscope, Parca or a receiver of OTLP.

use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use flamelet_profile::Profile;
use flamelet_remote::push::{self, Answer, Backoff, Protocol, Series, Verdict};

use crate::arguments::guide::Guide;
use crate::arguments::source::{ReadArgs, Sources};
use crate::error::{About, Failure, Result};
use crate::profiles::collected::{self, Which, collected_of};
use crate::profiles::history::{self, HistoryPart, Range, history_of};
use crate::profiles::{SourceOptions, fetch};

/// A history is sent as one profile per minute, so that the receiver can show its course.
const SLICE: i64 = 60_000_000_000;
/// How often a receiver that is busy or away is asked.
const TRIES: u32 = 5;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
    /// The receiver: pyroscope+http://HOST:4040, parca+http://HOST:7070 or otlp+http://HOST:4318; a plain URL means
    /// Pyroscope
    #[arg(long, value_name = "URL")]
    to: String,
    /// The name of the service (the label service_name); for the folder of a collector, the service to send
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    service: String,
    /// Add a label, as name=value (may be given several times)
    #[arg(long, value_name = "LABEL", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Pyroscope's tenant (the header X-Scope-OrgID)
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// For the folder of a history or of a collector: send only what is newer than this, such as -1h
    #[arg(long, value_name = "TIME", value_parser = history::parse_moment, allow_hyphen_values = true)]
    from: Option<i64>,
    #[command(flatten)]
    read: ReadArgs,
}

impl Args {
    fn options(&self) -> SourceOptions {
        let range = Range { from: self.from, to: None };
        SourceOptions { range, ..self.read.options(self.sources.sources.clone()) }
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
        own_help: vec![(
            "sources",
            "Files, '-' (standard input), folders of profiles, of a history or of a collector, or URLs of services; \
             each profile is sent separately"
                .to_owned(),
        )],
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
    let name = push::name_of(&profile);
    let requests = match destination.send_as(name, &destination.args.label, &profile)? {
        Sent::Accepted { requests } => requests,
        Sent::TooOld(why) => return Err(destination.refused(&why)),
    };
    let requests = if requests == 1 { String::new() } else { format!(", in {requests} requests") };
    note!("Pushed {source} as {name} of {}{requests}", destination.args.service);
    Ok(())
}

fn push_history(
    part: &HistoryPart<'_>,
    options: &SourceOptions,
    destination: &Destination<'_>,
) -> Result<()> {
    let name = part.folder.display();
    let (from, to) = (part.range.from.unwrap_or(i64::MIN), part.range.to.unwrap_or(i64::MAX));
    let (mut tally, mut notes) = (Tally::default(), Vec::new());
    for minute in history::stretches(part, SLICE, options.limits)? {
        let range = Range { from: Some(minute.max(from)), to: Some(minute.saturating_add(SLICE).min(to)) };
        if let Some(mut profile) = history::slice(&part.within(range), options.limits, &mut notes)? {
            options.symbols.apply(&mut profile, &mut notes);
            let name = push::prepare(destination.protocol, part.kind(), &mut profile);
            tally.add(destination.send_as(name, &destination.args.label, &profile)?);
        }
    }
    notes.dedup();
    notes.iter().for_each(|note| note!("{note}"));
    tally.check(destination)?;
    let Tally { sent, .. } = tally;
    note!("Pushed {sent} minutes of {name} as {}{}", destination.args.service, tally.left());
    let others = history::other_kinds(part, options.limits)?;
    if let Some(first) = others.first() {
        note!(
            "Not pushed: {} (each is a source of its own, such as '{name}?kind={first}')",
            others.join(", ")
        );
    }
    Ok(())
}

fn push_collected(
    folder: &Path,
    range: Range,
    options: &SourceOptions,
    destination: &Destination<'_>,
) -> Result<()> {
    let which = Which { service: Some(destination.args.service.clone()), profile: None };
    let (mut tally, mut notes) = (Tally::default(), Vec::new());
    collected::replay(folder, range, &which, options.limits, &mut |mut replayed| {
        options.symbols.apply(&mut replayed.profile, &mut notes);
        // The labels of the command line come first: receivers limit how many they accept.
        let labels = [&destination.args.label[..], &replayed.labels].concat();
        tally.add(destination.send_as(&replayed.name, &labels, &replayed.profile)?);
        Ok(())
    })?;
    notes.dedup();
    notes.iter().for_each(|note| note!("{note}"));
    tally.check(destination)?;
    let (sent, service, folder) = (tally.sent, &destination.args.service, folder.display());
    note!("Pushed {sent} profiles of {service} from {folder}{}", tally.left());
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

/// What became of a profile.
enum Sent {
    Accepted {
        requests: usize,
    },
    /// The receiver takes nothing this old, and says so.
    TooOld(String),
}

/// How many profiles were sent, and how many the receiver found too old.
#[derive(Default)]
struct Tally {
    sent: usize,
    too_old: usize,
    /// What the receiver said about the first of them.
    why: String,
}

impl Tally {
    fn add(&mut self, sent: Sent) {
        match sent {
            // A profile without samples needs no request.
            Sent::Accepted { requests } => self.sent += usize::from(requests > 0),
            Sent::TooOld(why) => {
                self.too_old += 1;
                if self.too_old == 1 {
                    self.why = why;
                }
            }
        }
    }

    /// Fails if the receiver took nothing at all.
    fn check(&self, destination: &Destination<'_>) -> Result<()> {
        match self.sent == 0 && self.too_old > 0 {
            true => Err(destination.refused(&format!("{} (all {} are too old)", self.why, self.too_old))),
            false => Ok(()),
        }
    }

    /// Returns what was left out, for the end of a line.
    fn left(&self) -> String {
        match self.too_old {
            0 => String::new(),
            too_old => format!("; {too_old} were too old for the receiver"),
        }
    }
}

impl Destination<'_> {
    /// Sends a profile under a name and with labels.
    fn send_as(&self, name: &str, labels: &[(String, String)], profile: &Profile) -> Result<Sent> {
        if profile.sample_count() == 0 {
            return Ok(Sent::Accepted { requests: 0 });
        }
        let series = Series { name, service: &self.args.service, labels };
        let bodies = self.protocol.bodies(profile, &series)?;
        for body in &bodies {
            if let Some(why) = self.send_body(body)? {
                return Ok(Sent::TooOld(why));
            }
        }
        Ok(Sent::Accepted { requests: bodies.len() })
    }

    /// Sends one body, and returns what the receiver says if it is too old. A receiver that is busy or away is asked again.
    fn send_body(&self, body: &[u8]) -> Result<Option<String>> {
        let mut backoff = Backoff::new(u64::from(std::process::id()) << 32 ^ history::now() as u64);
        for attempt in 1.. {
            let answer = fetch::try_post(&self.url, self.protocol.headers(), body, &self.fetch)?;
            let may_recover = answer.as_ref().map_or(true, is_busy);
            let (failure, wait) = match answer.map(|answer| push::judge(self.protocol, &answer)) {
                Ok(Verdict::Accepted) => return Ok(None),
                Ok(Verdict::TooOld(why)) => return Ok(Some(why)),
                Ok(Verdict::Refused(why)) => return Err(self.refused(&why)),
                Ok(Verdict::Later(why, wait)) => (self.refused(&why), wait),
                Err(failure) => (failure, None),
            };
            if attempt == TRIES || !may_recover {
                return Err(failure);
            }
            if attempt == 1 {
                note!("{failure}; trying again");
            }
            std::thread::sleep(backoff.next(wait));
        }
        Ok(None)
    }

    fn refused(&self, why: &str) -> Failure {
        Failure::new(format!("{}: the receiver answered with {why}", self.url))
    }
}

/// Returns whether a receiver may answer otherwise in a moment.
fn is_busy(answer: &Answer) -> bool {
    matches!(answer.status, 408 | 429 | 500..=599)
}
