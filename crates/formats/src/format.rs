//! The registry of formats: one entry each, used for recognising, reading and writing files and for every list of
//! formats.
//!
//! A new format is a module with its functions, an entry in this registry, and a sample that `tests/registry.rs` asks
//! for.

use std::fmt;
use std::str::FromStr;

use flamelet_profile::{Error, ErrorKind, Profile, Result};

use crate::input::Input;
use crate::json::Keys;
use crate::output::Output;
use crate::{
    FormatOptions, Notes, bpftrace, cachegrind, callgrind, cpuprofile, csv, dhat, dtrace, firefox, folded,
    heaptrack, jemalloc, jfr, legacy, mac_sample, massif, native, otlp, perf_data, perf_script, speedscope,
    strace, trace_event, xctrace,
};

/// The properties of a format.
pub(crate) struct FormatEntry {
    name: &'static str,
    title: &'static str,
    aliases: &'static [&'static str],
    extensions: &'static [&'static str],
    pub(crate) read: Option<(Recognition, ReadFn)>,
    pub(crate) write: Option<WriteFn>,
    holds_times: bool,
}

/// How files of the format are recognised.
pub(crate) enum Recognition {
    /// By the beginning of the file.
    Bytes(fn(&[u8]) -> bool),
    /// By the beginning of the file, and whether that is all of it.
    MaybeCut(fn(&[u8], bool) -> bool),
    /// By the keys of the outermost object. Used only for files that are JSON; the other variants only for files that
    /// are not.
    Json(fn(&Keys<'_>) -> bool),
}

use Recognition::{Bytes, Json, MaybeCut};

type ReadFn = fn(Input<'_>, &FormatOptions, &mut Notes) -> Result<Profile>;
type WriteFn = fn(&Profile, Output<'_>) -> Result<()>;

impl FormatEntry {
    const EMPTY: Self = Self {
        name: "",
        title: "",
        aliases: &[],
        extensions: &[],
        read: None,
        write: None,
        holds_times: true,
    };
}

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident: $entry:expr)*) => {
        /// A file format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $variant,)*
        }

        impl Format {
            /// Every format, in the order in which files are tested for them.
            pub const fn all() -> &'static [Format] {
                &[$(Format::$variant),*]
            }
        }

        /// In the order of [`Format::all`].
        static REGISTRY: [FormatEntry; Format::all().len()] = [$($entry),*];
    };
}

// The most reliable tests come first: magic numbers, then first lines and keys, then mere resemblance.
formats! {
    /// The file that `perf record` writes.
    PerfData: FormatEntry {
        name: "perf-data",
        title: "perf.data, file and pipe mode",
        aliases: &["perf.data", "perf"],
        extensions: &["perf.data"],
        read: Some((Bytes(perf_data::recognise), perf_data::read)),
        ..FormatEntry::EMPTY
    }
    /// Java Flight Recorder.
    Jfr: FormatEntry {
        name: "jfr",
        title: "Java Flight Recorder",
        read: Some((Bytes(jfr::recognise), jfr::read)),
        ..FormatEntry::EMPTY
    }
    /// jemalloc's heap dump.
    Jemalloc: FormatEntry {
        name: "jemalloc",
        title: "jemalloc heap_v2",
        aliases: &["jeprof"],
        read: Some((Bytes(jemalloc::recognise), jemalloc::read)),
        ..FormatEntry::EMPTY
    }
    /// pprof's legacy formats: binary CPU profiles and the text of heap, contention, thread and count profiles.
    PprofLegacy: FormatEntry {
        name: "pprof-legacy",
        title: "pprof's older kinds (binary CPU, heap, growth, contention, thread, count, Java)",
        aliases: &["gperftools", "tcmalloc"],
        read: Some((Bytes(legacy::recognise), legacy::read)),
        ..FormatEntry::EMPTY
    }
    /// The XML of `xctrace export`.
    Xctrace: FormatEntry {
        name: "xctrace",
        title: "xctrace export XML (time-profile)",
        aliases: &["instruments"],
        read: Some((Bytes(xctrace::recognise), xctrace::read)),
        ..FormatEntry::EMPTY
    }
    /// heaptrack's data, raw or interpreted.
    Heaptrack: FormatEntry {
        name: "heaptrack",
        title: "heaptrack, raw and interpreted (v1 to v3)",
        read: Some((Bytes(heaptrack::recognise), heaptrack::read)),
        ..FormatEntry::EMPTY
    }
    /// massif's output file.
    Massif: FormatEntry {
        name: "massif",
        title: "massif out",
        read: Some((Bytes(massif::recognise), massif::read)),
        ..FormatEntry::EMPTY
    }
    /// callgrind's output file.
    Callgrind: FormatEntry {
        name: "callgrind",
        title: "callgrind out",
        aliases: &["kcachegrind"],
        extensions: &["callgrind", "callgrind.out"],
        read: Some((Bytes(callgrind::recognise), callgrind::read)),
        write: Some(callgrind::write),
        holds_times: false,
    }
    /// cachegrind's output file.
    Cachegrind: FormatEntry {
        name: "cachegrind",
        title: "cachegrind out",
        read: Some((Bytes(cachegrind::recognise), cachegrind::read)),
        ..FormatEntry::EMPTY
    }
    /// The report of macOS's `sample`.
    MacSample: FormatEntry {
        name: "sample",
        title: "macOS sample report",
        aliases: &["macos-sample"],
        read: Some((Bytes(mac_sample::recognise), mac_sample::read)),
        ..FormatEntry::EMPTY
    }
    /// The table of `strace -c`.
    StraceSummary: FormatEntry {
        name: "strace-summary",
        title: "strace -c table",
        read: Some((Bytes(strace::summary::recognise), strace::summary::read)),
        ..FormatEntry::EMPTY
    }
    /// bpftrace's maps.
    Bpftrace: FormatEntry {
        name: "bpftrace",
        title: "bpftrace stack maps and histograms",
        read: Some((Bytes(bpftrace::recognise), bpftrace::read)),
        ..FormatEntry::EMPTY
    }
    /// Chrome's trace events, which `tracing-chrome` and Perfetto use too.
    TraceEvent: FormatEntry {
        name: "chrome-trace",
        title: "Chrome trace-event JSON",
        aliases: &["trace", "trace-event", "chrome"],
        extensions: &["trace.json"],
        read: Some((Json(trace_event::recognise), trace_event::read)),
        write: Some(trace_event::write),
        ..FormatEntry::EMPTY
    }
    /// DHAT's JSON, from valgrind or dhat-rs.
    Dhat: FormatEntry {
        name: "dhat",
        title: "DHAT JSON",
        read: Some((Json(dhat::recognise), dhat::read)),
        ..FormatEntry::EMPTY
    }
    /// OTLP profiles as JSON.
    OtlpJson: FormatEntry {
        name: "otlp-json",
        title: "OTLP profiles, JSON (v1development)",
        extensions: &["otlp.json"],
        read: Some((Json(otlp::recognise_json), otlp::read_json)),
        write: Some(otlp::write_json),
        ..FormatEntry::EMPTY
    }
    /// speedscope's JSON.
    Speedscope: FormatEntry {
        name: "speedscope",
        title: "speedscope JSON",
        extensions: &["speedscope.json", "speedscope"],
        read: Some((Json(speedscope::recognise), speedscope::read)),
        write: Some(speedscope::write),
        ..FormatEntry::EMPTY
    }
    /// V8's CPU profile.
    CpuProfile: FormatEntry {
        name: "cpuprofile",
        title: "Chrome .cpuprofile",
        aliases: &["v8"],
        extensions: &["cpuprofile"],
        read: Some((Json(cpuprofile::recognise), cpuprofile::read)),
        write: Some(cpuprofile::write),
        ..FormatEntry::EMPTY
    }
    /// The Firefox profiler's processed JSON, which samply writes too.
    Firefox: FormatEntry {
        name: "firefox",
        title: "Firefox processed profile JSON",
        aliases: &["samply", "fxprof"],
        extensions: &["firefox.json", "fxprof.json"],
        read: Some((Json(firefox::recognise), firefox::read)),
        write: Some(firefox::write),
        ..FormatEntry::EMPTY
    }
    /// The unprocessed profile that Firefox itself writes.
    Gecko: FormatEntry {
        name: "gecko",
        title: "Gecko profile JSON",
        read: Some((Json(firefox::gecko::recognise), firefox::gecko::read)),
        ..FormatEntry::EMPTY
    }
    /// OTLP profiles as protobuf, schema `v1development`.
    Otlp: FormatEntry {
        name: "otlp",
        title: "OTLP profiles, protobuf (v1development)",
        aliases: &["opentelemetry"],
        extensions: &["otlp", "otlp.pb"],
        read: Some((MaybeCut(otlp::recognise), otlp::read)),
        write: Some(otlp::write),
        ..FormatEntry::EMPTY
    }
    /// pprof's protobuf, flamelet's native format.
    Pprof: FormatEntry {
        name: "pprof",
        title: "pprof protobuf",
        aliases: &["proto", "pb"],
        extensions: &["pb.gz", "pb", "pprof", "prof"],
        read: Some((Bytes(native::recognise), native::read)),
        write: Some(native::write),
        ..FormatEntry::EMPTY
    }
    /// The text of `perf script`.
    PerfScript: FormatEntry {
        name: "perf-script",
        title: "perf script text",
        aliases: &["perf.txt"],
        extensions: &["perf"],
        read: Some((Bytes(perf_script::recognise), perf_script::read)),
        ..FormatEntry::EMPTY
    }
    /// The log of `strace`.
    Strace: FormatEntry {
        name: "strace",
        title: "strace -f -T -ttt [-k] log",
        read: Some((Bytes(strace::recognise), strace::read)),
        ..FormatEntry::EMPTY
    }
    /// DTrace's aggregated stacks.
    Dtrace: FormatEntry {
        name: "dtrace",
        title: "DTrace stacks",
        read: Some((Bytes(dtrace::recognise), dtrace::read)),
        ..FormatEntry::EMPTY
    }
    /// Folded stacks, one per line.
    Folded: FormatEntry {
        name: "folded",
        title: "folded stacks (also differential)",
        aliases: &["collapsed", "stacks"],
        extensions: &["folded", "collapsed"],
        read: Some((MaybeCut(folded::recognise), folded::read)),
        write: Some(folded::write),
        holds_times: false,
    }
    /// A table with one line per sample.
    Csv: FormatEntry {
        name: "csv",
        title: "CSV table, one line per sample",
        extensions: &["csv"],
        write: Some(csv::write),
        holds_times: false,
        ..FormatEntry::EMPTY
    }
}

impl Format {
    pub(crate) fn entry(self) -> &'static FormatEntry {
        &REGISTRY[self as usize]
    }

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the name for display.
    pub fn title(self) -> &'static str {
        self.entry().title
    }

    /// Returns other accepted names.
    pub fn aliases(self) -> &'static [&'static str] {
        self.entry().aliases
    }

    /// Returns the file name extensions, without the first dot; the usual one comes first.
    pub fn extensions(self) -> &'static [&'static str] {
        self.entry().extensions
    }

    /// Returns whether files of this format can be read.
    pub fn can_read(self) -> bool {
        self.entry().read.is_some()
    }

    /// Returns whether files of this format can be written.
    pub fn can_write(self) -> bool {
        self.entry().write.is_some()
    }

    /// Returns whether the format can store when each sample was taken.
    pub fn holds_times(self) -> bool {
        self.entry().holds_times
    }

    /// Returns the format for an output file named `path`, by the longest extension that matches.
    pub fn for_output(path: &str) -> Option<Format> {
        let path = path.to_ascii_lowercase();
        let endings = Format::all()
            .iter()
            .filter(|format| format.can_write())
            .flat_map(|&format| format.extensions().iter().map(move |&extension| (extension, format)));
        let fits = |extension: &str| {
            path.strip_suffix(extension).is_some_and(|before| before.ends_with('.') || before.ends_with('/'))
        };
        endings
            .filter(|(extension, _)| fits(extension))
            .max_by_key(|(extension, _)| extension.len())
            .map(|(_, f)| f)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.to_ascii_lowercase();
        let named = |format: &&Format| {
            format.name() == wanted
                || format.aliases().contains(&&*wanted)
                || format.extensions().contains(&&*wanted)
        };
        Format::all().iter().find(named).copied().ok_or_else(|| {
            let names: Vec<_> = Format::all().iter().map(|format| format.name()).collect();
            Error::new(
                ErrorKind::Incompatible,
                format!("unknown format `{text}`; the formats are {}", names.join(", ")),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_choose_the_longest_ending() {
        assert_eq!(Format::for_output("x.speedscope.json"), Some(Format::Speedscope));
        assert_eq!(Format::for_output("a/b.pb.gz"), Some(Format::Pprof));
        assert_eq!(Format::for_output("a.folded"), Some(Format::Folded));
        assert_eq!(Format::for_output("a/callgrind.out"), Some(Format::Callgrind));
        assert_eq!(Format::for_output("a.svg"), None);
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for format in Format::all() {
            assert!(seen.insert(format.name()), "{format} twice");
            format.aliases().iter().for_each(|alias| assert!(seen.insert(alias), "{alias} twice"));
            assert_eq!(format.name().parse::<Format>().unwrap(), *format);
        }
        assert!("nonsense".parse::<Format>().is_err());
    }
}
