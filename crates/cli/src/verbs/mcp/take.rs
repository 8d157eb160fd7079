//! The tools that make profiles: of a process, and by a service.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use flamelet_profile::{Profile, pprof};

use super::answer::quality;
use super::parameters::Arguments;
use super::server::McpServer;
use crate::error::{About, Failure, Result};
use crate::note::escaped;

const USUAL_SECONDS: u64 = 10;
/// How many of the last messages of a recording are part of the answer, and how long each may be.
const LAST_LINES: usize = 20;
const LONGEST_LINE: u64 = 500;
/// How long to wait for messages after the recording has ended: a process that it left behind may hold the pipe.
const LAST_WAIT: Duration = Duration::from_secs(2);

pub(super) fn fetch(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let seconds = arguments.count("seconds");
    let address = arguments.needed("address");
    let saved = Saved::new(server, arguments)?;
    // Of a heap, seconds would mean a difference.
    let is_timed = server.reach.url(address, None)?.seconds.is_some();
    let seconds = seconds.or(is_timed.then_some(USUAL_SECONDS));
    let url = server.reach.url(address, seconds)?;
    let mut options = server.source_options();
    options.fetch.follows_no_redirects = true;
    let mut notes = Vec::new();
    let profile = options.open_one(&url.url, &mut notes)?;
    notes.iter().for_each(|note| note!("{note}"));
    keep(server, saved.as_ref(), "fetched", profile)
}

/// Records by the verb `record` in a process of its own, so that the command's output stays away from ours, and a crash
/// of the recorder, too.
pub(super) fn record(server: &McpServer, arguments: &Arguments<'_>) -> Result<String> {
    let saved = Saved::new(server, arguments)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("recording.pb.gz");
    let mut recorder = recorder(arguments, &file)?;
    recorder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().about("record")?;
    let messages = last_messages(&mut recorder);
    let status = recorder.wait()?;
    let messages = messages.recv_timeout(LAST_WAIT).unwrap_or_default();
    if !file.exists() {
        let last = messages.back().map_or("it failed without a message", |line| line.as_str());
        return Err(Failure::new(last.trim_start_matches("flamelet: ")));
    }
    let profile = pprof::read(&std::fs::read(&file)?, &server.source_options().limits)?;
    let mut text = keep(server, saved.as_ref(), "recording", profile)?;
    text += &format!("The recorder ended with {status}. Its last messages:\n");
    messages.iter().for_each(|line| text += &format!("  {}\n", escaped(line)));
    Ok(text)
}

fn recorder(arguments: &Arguments<'_>, file: &Path) -> Result<Command> {
    let mut recorder = Command::new(std::env::current_exe()?);
    let seconds = arguments.count("seconds").unwrap_or(USUAL_SECONDS);
    recorder.args(["record", "--duration", &seconds.to_string(), "--output"]).arg(file);
    recorder.args(arguments.switch("off_cpu").then_some("--off-cpu"));
    recorder.args(arguments.switch("heap").then_some("--heap"));
    match (arguments.text("process"), arguments.texts("command").as_slice()) {
        (Some(process), []) => recorder.arg(format!("--pid={process}")),
        (None, command @ [_, ..]) => recorder.arg("--").args(command),
        _ => return Err(Failure::new("give either 'command' or 'process'")),
    };
    Ok(recorder)
}

/// Reads the recorder's messages as they come, and sends the last ones when they end.
fn last_messages(recorder: &mut Child) -> mpsc::Receiver<VecDeque<String>> {
    let (sender, messages) = mpsc::channel();
    let Some(pipe) = recorder.stderr.take() else { return messages };
    std::thread::spawn(move || {
        let (mut pipe, mut line) = (BufReader::new(pipe), Vec::new());
        let mut last = VecDeque::new();
        while let Ok(1..) = pipe.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            if last.len() > LAST_LINES {
                last.pop_front();
            }
            line.clear();
        }
        let _ = sender.send(last);
    });
    messages
}

/// Keeps a profile, saves it if asked to, and says what it is.
fn keep(server: &McpServer, saved: Option<&Saved>, kind: &str, profile: Profile) -> Result<String> {
    let quality = quality(&profile);
    let saved = saved.map(|saved| saved.write(&profile));
    let name = server.shelf().keep(kind, profile);
    let saved = match saved {
        None => String::new(),
        Some(Ok(path)) => format!("Saved in {path}\n"),
        // The profile itself is there, and must not be lost.
        Some(Err(failure)) => format!("It could not be saved: {failure}\n"),
    };
    Ok(format!("Kept in memory as {name}: use this name as `profile`.\n{quality}{saved}"))
}

/// The file to save a profile in.
struct Saved {
    path: PathBuf,
}

impl Saved {
    /// Checks the name before anything is recorded or fetched. Only new files in the folder for them are written.
    fn new(server: &McpServer, arguments: &Arguments<'_>) -> Result<Option<Self>> {
        let Some(name) = arguments.text("save_as") else { return Ok(None) };
        let Some(folder) = &server.write else {
            return Err(Failure::new("save_as: nothing may be written; the server's --write DIR allows it"));
        };
        let mut parts = Path::new(name).components();
        let is_plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_plain || name.starts_with('.') || name.contains('/') || !name.ends_with(".pb.gz") {
            return Err(Failure::new(format!("save_as: {name}: must be a file name that ends in .pb.gz")));
        }
        let path = folder.join(name);
        match path.symlink_metadata() {
            Ok(_) => Err(Failure::new(format!("save_as: {name}: it exists already"))),
            Err(_) => Ok(Some(Self { path })),
        }
    }

    fn write(&self, profile: &Profile) -> Result<String> {
        let name = self.path.display();
        // Never replaces a file, and never follows a link.
        let mut file = File::create_new(&self.path).about(&name)?;
        pprof::write_gzip(profile, &mut file).about(&name)?;
        file.flush().about(&name)?;
        Ok(name.to_string())
    }
}
