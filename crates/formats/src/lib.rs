//! Reads and writes the file formats of other profilers.
//!
//! [`read()`] (and [`read_file`]) takes any file, unpacks it (gzip, zstd, xz, bzip2), recognises it by its content
//! and turns it into a [`Profile`]; [`write()`] writes a profile to a file. Both return notes about what was dropped
//! or guessed. [`Format`] names the formats, and [`recognise`] only returns the format of a file. [`read_otlp`] is for those
//! who receive OTLP over the network: its messages have profiles of several resources.
//!
//! A format is one file (or folder) with `recognise`, `read` and `write` side by side, and one entry in the registry
//! (`format.rs`). Line-based formats are read as a stream; their memory grows with their content (distinct stacks,
//! and events if [`FormatOptions::timeline`] is set), not with the size of the file. Whatever a file says, reading it takes
//! no more than [`FormatOptions::limits`]: see [`flamelet_profile::budget`]. Formats of the same family share their sample
//! types:
//!
//! | | sample types |
//! |---|---|
//! | samplers | `samples/count`, then one per kind of event: `cpu/nanoseconds` for clocks, else the event's name |
//! | time-ordered traces | `spans/count` or `samples/count`, and `time/nanoseconds` |
//! | cost counters | one per event: `Ir`, `Dr`, `D1mr`, … |
//! | heap | `alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes` where known |
//!
//! Threads are rows of the timeline if the file has times, and the labels `thread`, `tid` and `pid` in any case.

mod addresses;
mod assembly;
mod bpftrace;
mod cachegrind;
mod callgrind;
mod cpuprofile;
mod csv;
mod detect;
mod dhat;
mod dtrace;
mod firefox;
mod folded;
mod format;
mod frames;
mod heap;
mod heaptrack;
mod input;
mod jemalloc;
mod jfr;
mod json;
mod legacy;
mod linked_names;
mod mac_sample;
mod massif;
mod native;
mod notes;
mod number;
mod otlp;
mod output;
mod perf_data;
mod perf_script;
mod speedscope;
mod strace;
mod trace_event;
mod unpack;
mod utf16;
mod valgrind;
mod xctrace;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use flamelet_profile::{Budget, Profile};
pub use flamelet_profile::{Error, ErrorKind, Limits, Result};
pub use format::Format;
use input::Input;
use notes::Notes;
pub use otlp::{OtlpResource, read_otlp};
use output::Output;

/// Options for reading and writing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormatOptions {
    /// The most memory and work that reading may take.
    pub limits: Limits,
    /// Read the file as this format instead of recognising it.
    pub format: Option<Format>,
    /// Keep when each sample was taken, if the file says so; otherwise the timeline has no events.
    pub timeline: bool,
    /// Which value to write to a format that holds only one: a row of the profile's sample types; `None` for the
    /// profile's default.
    pub sample_index: Option<usize>,
    /// Open only files below these folders, which are real paths, of those that the file names.
    pub only_below: Option<Vec<PathBuf>>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self { limits: Limits::PERSON, format: None, timeline: true, sample_index: None, only_below: None }
    }
}

impl FormatOptions {
    /// Returns the value to write.
    fn sample_index(&self, profile: &Profile) -> Result<usize> {
        let count = profile.sample_types().len();
        let index = self.sample_index.unwrap_or_else(|| profile.default_sample_index());
        if index < count {
            return Ok(index);
        }
        let message = match count {
            0 => "the profile has no values to write".into(),
            _ => format!("the profile has no value {index}, only {count} values"),
        };
        Err(Error::new(ErrorKind::Incompatible, message))
    }
}

/// The result of reading a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Read {
    /// The profile in the file.
    pub profile: Profile,
    /// The format it is in.
    pub format: Format,
    /// What was dropped or guessed, one line each.
    pub notes: Vec<String>,
}

/// Reads a profile in any format. The format is recognised by the content, unless [`FormatOptions::format`] names it.
pub fn read(file: impl io::Read, options: &FormatOptions) -> Result<Read> {
    read_input(Input::open(file, &Budget::new(options.limits))?, options)
}

/// Reads a profile from a file, starting at its beginning. Like [`read()`], but the stack dumps in a perf recording,
/// most of which are not needed, stay in the file until they are.
pub fn read_file(file: &File, options: &FormatOptions) -> Result<Read> {
    read_input(Input::of_file(file, &Budget::new(options.limits))?, options)
}

fn read_input(input: Input<'_>, options: &FormatOptions) -> Result<Read> {
    let mut notes = Notes::default();
    let budget = input.budget().clone();
    let read = detect::read(input, options, &mut notes);
    // A reader that ran out of budget may think that the file is damaged or empty.
    budget.check()?;
    let (format, profile) = read?;
    Ok(Read { profile, format, notes: notes.into_vec() })
}

/// Returns the format of the file that starts with `head` (64 KiB are plenty), which is unpacked if necessary.
pub fn recognise(head: &[u8]) -> Result<Format> {
    let input = Input::open(head, &Budget::new(Limits::default()))?;
    detect::recognise(input.head(), true)
}

/// Writes `profile` in `format` and returns what the format could not hold, one line each.
pub fn write(
    profile: &Profile,
    format: Format,
    out: &mut impl io::Write,
    options: &FormatOptions,
) -> Result<Vec<String>> {
    let mut notes = Notes::default();
    let mut out = io::BufWriter::new(out);
    let Some(write) = format.entry().write else {
        let message = format!("{} can be read but not written", format.title());
        return Err(Error::new(ErrorKind::Incompatible, message));
    };
    write(profile, Output { out: &mut out, options, notes: &mut notes })?;
    io::Write::flush(&mut out)?;
    Ok(notes.into_vec())
}
