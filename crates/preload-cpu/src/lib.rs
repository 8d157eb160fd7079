//! The library that `flamelet record` loads into a command where the kernel does not allow `perf_event_open`.
//!
//! It runs the sampler of `flamelet-capture`, which needs no privileges, from before `main` to the end of the
//! program, and keeps the samples in a file `PID-N.profile` (pprof, addresses without names) in the folder that the
//! recorder names: replaced every second, so that a kill leaves something, and at the end. A forked child samples
//! itself; a program that it starts loads the library again.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code, reason = "runs before main and at exit, by C functions")]

mod alone;
mod ending;
mod next;
mod signals;
mod threads;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flamelet_capture::cpu::{self, MAX_FREQUENCY, Options, Session, Signal};
use flamelet_capture::own_threads;
use flamelet_preload_ledger::{PROFILE_ENDING, REFUSED_ENDING, env, place};
use flamelet_profile::{Profile, pprof};
use flamelet_unwind::fork::{self, Handlers, Part};

/// How often the file is replaced at most, and the fraction of the time that this may take.
const EVERY: Duration = Duration::from_secs(1);
const SHARE: u32 = 50;

/// What is sampled in this process.
struct Capture {
    /// `None` once the program ends.
    session: Mutex<Option<Session>>,
    file: PathBuf,
    pid: u32,
}

/// Never freed: other threads may be looking at it when the program ends.
static CURRENT: AtomicPtr<Capture> = AtomicPtr::new(ptr::null_mut());

/// Called by the loader before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    // Nothing else is needed if nothing is sampled.
    if begin().is_some() {
        // SAFETY: the function has the type that is wanted, and stays loaded as long as the program.
        unsafe { libc::atexit(at_end) };
        fork::watch(Part::Recorder, &AT_FORK);
    }
}

/// The parent's capture is not this child's; the sampler knows that already.
static AT_FORK: Handlers = Handlers::in_child(|| {
    CURRENT.store(ptr::null_mut(), Ordering::Release);
    signals::give_back();
    threads::follow(false);
    ending::forget();
    begin();
});

extern "C" fn at_end() {
    // SAFETY: null, or from a box that is never freed.
    let capture = unsafe { CURRENT.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    if let Some(capture) = capture {
        save_last(capture);
    }
}

/// Ends sampling until [`begin`] is called again; returns whether there was any in this process. Our threads end soon
/// afterwards.
fn pause() -> bool {
    const PATIENCE: Duration = Duration::from_secs(5);
    if !ending::save(PATIENCE) {
        return false;
    }
    CURRENT.store(ptr::null_mut(), Ordering::Release);
    ending::forget();
    true
}

/// Ends the capture and writes all of it.
fn save_last(capture: &Capture) {
    threads::follow(false);
    let session = capture.session.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        let _ = replace(&capture.file, &session.finish());
    }
}

/// Starts sampling this process; returns `None` where that is not possible, and writes the reason to a file.
fn begin() -> Option<()> {
    let folder = PathBuf::from(std::env::var_os(env::FOLDER)?);
    let asked = std::env::var(env::FREQUENCY).ok()?.parse::<u32>().ok()?;
    if !place::is_trusted(&folder) {
        return None;
    }
    let file = own_file(&folder)?;
    let capture = start(&file, asked).inspect_err(|why| refuse(&file, why)).ok()?;
    CURRENT.store(ptr::from_ref(capture).cast_mut(), Ordering::Release);
    signals::take();
    threads::follow(true);
    Some(())
}

fn start(file: &Path, asked: u32) -> Result<&'static Capture, String> {
    let mut options = Options::with_frequency(asked.clamp(1, MAX_FREQUENCY));
    // A recording gets the rate that it requested.
    options.overhead_budget = None;
    // The program may reset its signals, or start another program, at any moment, and must run as it does without us.
    options.signal = Signal::Urgent;
    let session = cpu::start(&options).map_err(|error| error.to_string())?;
    let session = Mutex::new(Some(session));
    let capture: &'static Capture =
        Box::leak(Box::new(Capture { session, file: file.to_owned(), pid: std::process::id() }));
    own_threads::spawn("flamelet-save", || save_while_running(capture)).map_err(|error| error.to_string())?;
    Ok(capture)
}

/// Returns a path `PID-N`, where N distinguishes images of one process.
fn own_file(folder: &Path) -> Option<PathBuf> {
    let pid = std::process::id();
    let name = |number: u32| folder.join(format!("{pid}-{number}.{PROFILE_ENDING}"));
    for path in (0..10_000).map(name) {
        match place::create(&path) {
            Ok(_) => return Some(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
    }
    None
}

/// Writes to a file why nothing is sampled.
fn refuse(file: &Path, why: &str) {
    let _ = write_new(&file.with_extension(REFUSED_ENDING), why.as_bytes());
}

fn save_while_running(capture: &Capture) {
    let mut pause = EVERY;
    loop {
        if ending::is_near(pause) {
            save_last(capture);
            return ending::saved();
        }
        let session = capture.session.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = session.as_ref() else { return };
        let start = Instant::now();
        let _ = replace(&capture.file, &session.snapshot());
        pause = EVERY.max(start.elapsed() * SHARE);
    }
}

/// Replaces the file as a whole: a kill in the middle leaves the previous one.
fn replace(file: &Path, profile: &Profile) -> io::Result<()> {
    // The recording may be over, and its folder made again by somebody else.
    if !file.parent().is_some_and(place::is_trusted) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let part = file.with_extension("part");
    // Left by a kill in the middle of an earlier image of this process.
    let _ = std::fs::remove_file(&part);
    write_new(&part, &pprof::encode(profile))?;
    std::fs::rename(&part, file)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    place::check_length(bytes.len() as u64)?;
    place::create(path)?.write_all(bytes)
}
