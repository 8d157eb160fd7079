//! `flamelet view`: the web viewer.

mod past;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueHint;
use flamelet_profile::{HeapView, filter};
use flamelet_report::disasm::{self, Disassembly};
use flamelet_report::{Mine, Report, ReportOption};
use flamelet_symbol::source::confirmed_sources;
use flamelet_symbol::symbolize::{SymbolizeOptions, Symbolizer};
use flamelet_view::{
    CancelToken, CodeOptions, Disassemble, Error, ServeOptions, Server, Source, Take, Taken, WaitKind,
};

use crate::arguments::guide::Guide;
use crate::arguments::options::{OptionArgs, Takes};
use crate::arguments::report::MineArgs;
use crate::arguments::source::{RangeArgs, SourceArgs};
use crate::error::{About, Failure, Result};
use crate::output;
use crate::profiles::collected::collected_of;
use crate::profiles::fetch::{self, FetchOptions};
use crate::profiles::history::history_of;
use crate::profiles::{AllowedFiles, SourceOptions, SymbolOptions, is_service};

/// How long a service is profiled for the page by default.
const LIVE_SECONDS: u64 = 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files, a folder of profiles, '-', or the URL of a service
    #[arg(required = true, value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    sources: Vec<String>,
    /// The port; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Listen on this address, 0.0.0.0 for all; anyone with the printed URL sees the profiles [default: this machine
    /// only]
    #[arg(long, value_name = "ADDR")]
    host: Option<String>,
    /// With --host, also show source files and instructions to other machines
    #[arg(long)]
    serve_sources: bool,
    /// Print the URL without opening a browser
    #[arg(long, alias = "no_browser")]
    no_browser: bool,
    #[command(flatten)]
    mine: MineArgs,
    #[command(flatten)]
    options: OptionArgs<Page>,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// The page has filters of its own.
struct Page;

impl Takes for Page {
    const REPORT: flamelet_report::ReportKind = flamelet_report::ReportKind::List;

    fn takes(option: &ReportOption) -> bool {
        matches!(option.name, "source_path" | "trim_path")
    }
}

pub(crate) fn guide() -> Guide {
    Guide {
        about: "View profiles in the browser",
        examples: &[
            ("flamelet view cpu.pb.gz", "one profile"),
            ("flamelet view before.pb.gz after.pb.gz", "two profiles, to compare"),
            ("flamelet view http://localhost:3000", "take profiles of a service"),
            ("flamelet view /opt/profiling", "a folder of profiles, with its subfolders"),
            (
                "flamelet view /var/lib/my-service/history --from -2h --to -1h",
                "one hour of a service's history",
            ),
            ("flamelet view /var/lib/flamelet", "the services of a collector"),
            ("flamelet view --host 0.0.0.0 --port 8080 cpu.pb.gz", "in a container with a published port"),
            ("flamelet view --mine '^house_' cpu.pb.gz", "count crates named house_… as your code"),
            ("flamelet view --source-path ~/checkout cpu.pb.gz", "with the source files in this folder"),
        ],
        own_help: vec![(
            "seconds",
            format!("Profile the service for this many seconds [default: {LIVE_SECONDS}]"),
        )],
        ..Guide::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut options = SourceOptions {
        range: args.range.range(),
        which: args.range.which(),
        ..args.source.options(args.sources.clone())
    };
    options.take_binary();
    let code = CodeOptions {
        source_path: args.options.options.source_path.clone(),
        trim_path: args.options.options.trim_path.clone(),
        ..code_options(&options.symbols)
    };
    // A wrong expression is reported before anything is opened.
    Mine::parse(&args.mine.mine)?;
    let source = source(&options)?.with_code(code).with_mine(args.mine.mine.clone());
    let listen = listen_on(args.host.as_deref().unwrap_or_default(), args.port);
    let listen = ServeOptions { code_beyond_loopback: args.serve_sources, ..listen };
    serve(source, &listen, !args.no_browser)
}

/// Where to listen: on loopback, if `host` is its name or empty.
pub(super) fn listen_on(host: &str, port: u16) -> ServeOptions {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_loopback = matches!(host, "" | "localhost");
    ServeOptions { port, host: (!is_loopback).then(|| host.to_owned()), ..ServeOptions::default() }
}

/// Source files and binaries where they are usually found.
pub(super) fn code_options(symbols: &SymbolOptions) -> CodeOptions {
    let disassembler = Disassembler { symbols: symbols.clone() };
    CodeOptions { disassembler: Some(Box::new(disassembler)), ..CodeOptions::default() }
}

/// Finds binaries for the page as the reports do.
struct Disassembler {
    symbols: SymbolOptions,
}

impl Disassemble for Disassembler {
    fn confirmed_sources(&self, report: &Report) -> BTreeSet<String> {
        let options = SymbolizeOptions { force: true, ..self.symbols.symbolizer_options() };
        confirmed_sources(report.profile(), &mut Symbolizer::new(options))
    }

    fn disassemble(&self, report: &Report, pattern: &str) -> std::result::Result<Disassembly, String> {
        let wanted = filter::regex("the function", pattern).map_err(|error| error.to_string())?;
        let mut symbolizer = Symbolizer::new(self.symbols.symbolizer_options());
        Ok(disasm::disasm(report, wanted.as_ref(), &mut symbolizer))
    }
}

/// What the page shows: a folder to choose from, a live service, or profiles.
pub(super) fn source(options: &SourceOptions) -> Result<Source> {
    if let [only] = options.sources.as_slice() {
        let path = Path::new(only);
        let is_past = history_of(only, options.range).is_some()
            || collected_of(only, options.range).is_some()
            || (is_service(only) && options.range.is_given());
        if is_past {
            let past = past::of(only, options);
            // Of several services, the page opens the first one.
            let first = past.as_ref().and_then(|past| past.services().ok()?.into_iter().next());
            let mut options = options.clone();
            options.which.service = options.which.service.or(first);
            return Ok(match past {
                Some(past) => one(&options)?.with_past(past),
                None => one(&options)?,
            });
        }
        if (path.is_dir() || is_service(only)) && (options.has_base() || options.normalize) {
            let message =
                "--base and --normalize need files; here, select the profile to compare with on the page";
            return Err(Failure::new(format!("{only}: {message}")));
        }
        if path.is_dir() {
            options.note_unused();
            let options = SourceOptions { files: AllowedFiles::Regular, ..options.clone() };
            let open = move |path: &Path| {
                let opened = options.open_one(&path.to_string_lossy(), &mut Vec::new());
                opened.map_err(|failure| failure.to_string())
            };
            let source = Source::folder(path, open);
            note_empty(path, &source)?;
            return Ok(source);
        }
        if is_service(only) {
            return live(only, options);
        }
    }
    if options.sources.len() == 1 || options.has_base() {
        return one(options);
    }
    options.note_unused();
    let mut notes = Vec::new();
    let profiles: Result<Vec<_>> = options
        .sources
        .iter()
        .map(|source| Ok((source.clone(), options.open_one(source, &mut notes)?)))
        .collect();
    notes.iter().for_each(|note| note!("{note}"));
    Ok(Source::profiles(profiles?))
}

/// All sources together.
fn one(options: &SourceOptions) -> Result<Source> {
    // The page drops them itself, and its summary uses them.
    let options = SourceOptions { with_dropped_frames: true, ..options.clone() };
    let opened = options.open()?;
    opened.notes.iter().for_each(|note| note!("{note}"));
    Ok(Source::profile(&options.sources.join(" + "), opened.profile))
}

/// An empty page would not say why it is empty.
fn note_empty(folder: &Path, source: &Source) -> Result<()> {
    let name = folder.display();
    std::fs::read_dir(folder).about(&name)?;
    if source.is_empty() {
        note!("There are no profiles in {name} yet; reload the page when there are.");
    }
    Ok(())
}

/// A service that the page can get more profiles from.
struct LiveService {
    address: String,
    options: SourceOptions,
    /// Whether it answers about its requests, as a service with flamelet does.
    has_requests: bool,
}

/// The longest answer about requests that is read.
const MAX_REQUESTS: u64 = 4 << 20;

impl Take for LiveService {
    fn take(&self, seconds: u32, _: &CancelToken) -> std::result::Result<Taken, Error> {
        self.fetch(&self.address, Some(seconds.into())).map_err(Error::unreadable)
    }

    fn has_heap(&self) -> bool {
        self.heap_address(HeapView::InUse).is_some()
    }

    fn take_heap(&self, view: HeapView, seconds: u32, _: &CancelToken) -> std::result::Result<Taken, Error> {
        let missing = || Error::unreadable("the service has no heap profiles at this URL");
        let address = self.heap_address(view).ok_or_else(missing)?;
        // Of the others, seconds would mean a difference, or nothing at all.
        let seconds = (view == HeapView::Growth).then_some(seconds.into());
        self.fetch(&address, seconds).map_err(Error::unreadable)
    }

    fn has_requests(&self) -> bool {
        self.has_requests
    }

    fn requests(&self) -> std::result::Result<String, Error> {
        self.ask_requests().map_err(Error::unreadable)
    }

    fn take_wait(&self, kind: WaitKind, seconds: u32, _: &CancelToken) -> std::result::Result<Taken, Error> {
        let missing = || Error::unreadable("the service has no profiles of waiting at this URL");
        let address = self.endpoint(kind.endpoint()).ok_or_else(missing)?;
        let seconds = (kind == WaitKind::Wall).then_some(seconds.into());
        self.fetch(&address, seconds).map_err(Error::unreadable)
    }
}

impl LiveService {
    fn fetch(&self, address: &str, seconds: Option<u64>) -> std::result::Result<Taken, String> {
        let mut options = self.options.clone();
        options.fetch.seconds = seconds;
        let opened = options.open_one(address, &mut Vec::new());
        let profile = opened.map_err(|failure| failure.to_string())?;
        let name = format!("{address} {}", flamelet_report::utc(profile.header.time_nanos));
        Ok(Taken { name, profile })
    }

    fn ask_requests(&self) -> std::result::Result<String, String> {
        let url = fetch::endpoint_url(&self.address, "requests")
            .ok_or("the service has no figures about requests at this URL")?;
        let options = FetchOptions { max_bytes: MAX_REQUESTS, ..self.options.fetch.clone() };
        let bytes = fetch::fetch(&url, &options).map_err(|failure| failure.to_string())?;
        String::from_utf8(bytes).map_err(|_| "the service's answer is not text".to_owned())
    }

    /// Where the service answers about its memory.
    fn heap_address(&self, view: HeapView) -> Option<String> {
        self.endpoint(view.endpoint())
    }

    /// Where another endpoint is: beside the CPU profile.
    fn endpoint(&self, name: &str) -> Option<String> {
        let profile = fetch::profile_url(&self.address, None)?;
        let (place, _) = profile.url.split_once("/debug/pprof/")?;
        let insecure = if self.address.starts_with("https+insecure://") { "+insecure" } else { "" };
        let (scheme, rest) = place.split_once("://")?;
        Some(format!("{scheme}{insecure}://{rest}/debug/pprof/{name}"))
    }
}

fn live(address: &str, options: &SourceOptions) -> Result<Source> {
    let mut options = options.clone();
    options.fetch.seconds = options.fetch.seconds.or(Some(LIVE_SECONDS));
    note!("Taking a profile of {address} …");
    let profile = options.open_one(address, &mut Vec::new())?;
    let name = format!("{address} {}", flamelet_report::utc(profile.header.time_nanos));
    let past = past::of(address, &options);
    let mut service = LiveService { address: address.to_string(), options, has_requests: false };
    service.has_requests = service.ask_requests().is_ok_and(|text| text.starts_with("{\"routes\":"));
    let source = Source::live(vec![Taken { name, profile }], service);
    Ok(match past {
        Some(past) => source.with_past(past),
        None => source,
    })
}

/// Shows `source` until the process is interrupted.
pub(crate) fn serve(source: Source, options: &ServeOptions, open_browser: bool) -> Result<()> {
    let server = Server::bind(source, options).map_err(|error| {
        let port = options.port;
        Failure::new(match &options.host {
            None => format!("port {port}: {error}; give another port, or 0 for a free one"),
            Some(host) => {
                format!("{host}, port {port}: {error}; give an address of this machine and a free port")
            }
        })
    })?;
    output::line(&server.url())?;
    if !server.address().ip().is_loopback() {
        note!("Anyone who can reach {} and has this URL can see the profile.", server.address());
    }
    note!("Open the URL above in a browser; press Ctrl-C to stop.");
    if open_browser {
        open_in_browser(&server.url_once());
    }
    server.run().map_err(|error| Failure::new(error.to_string()))
}

/// Asks the desktop to open the address; where there is none, the printed address is enough.
pub(super) fn open_in_browser(url: &str) {
    let has_desktop = std::env::var_os("DISPLAY").or(std::env::var_os("WAYLAND_DISPLAY")).is_some();
    if !has_desktop && !cfg!(target_os = "macos") {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let _ = Command::new(opener).arg(url).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
