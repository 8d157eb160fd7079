//! The formats by name: what each is called, which file names it goes by, and what can be done with it.

use std::fmt;
use std::str::FromStr;

use flamelet_profile::{Error, ErrorKind};

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident {
        name: $name:literal, title: $title:literal, aliases: [$($alias:literal),*],
        extensions: [$($extension:literal),*], read: $read:literal, write: $write:literal,
    })*) => {
        /// A file format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $variant,)*
        }

        impl Format {
            /// Every format, in the order of `--help`.
            pub const fn all() -> &'static [Format] {
                &[$(Format::$variant),*]
            }

            const fn facts(self) -> Facts {
                match self {
                    $(Format::$variant => Facts {
                        name: $name, title: $title, aliases: &[$($alias),*],
                        extensions: &[$($extension),*], read: $read, write: $write,
                    },)*
                }
            }
        }
    };
}

struct Facts {
    name: &'static str,
    title: &'static str,
    aliases: &'static [&'static str],
    extensions: &'static [&'static str],
    read: bool,
    write: bool,
}

formats! {
    /// pprof's protobuf, flamelet's native file.
    Pprof {
        name: "pprof", title: "pprof protobuf", aliases: ["proto", "pb"],
        extensions: ["pb.gz", "pb", "pprof", "prof"], read: true, write: true,
    }
    /// pprof's older kinds: binary CPU profiles and the text of heap, contention, thread and count profiles.
    PprofLegacy {
        name: "pprof-legacy", title: "pprof's older kinds (binary CPU, heap, growth, contention, thread, count, Java)",
        aliases: ["gperftools", "tcmalloc"], extensions: [], read: true, write: false,
    }
    /// Folded stacks, one a line.
    Folded {
        name: "folded", title: "folded stacks (also differential)", aliases: ["collapsed", "stacks"],
        extensions: ["folded", "collapsed"], read: true, write: true,
    }
    /// The text of `perf script`.
    PerfScript {
        name: "perf-script", title: "perf script text", aliases: ["perf.txt"],
        extensions: ["perf"], read: true, write: false,
    }
    /// What `perf record` writes.
    PerfData {
        name: "perf-data", title: "perf.data, file and pipe mode", aliases: ["perf.data", "perf"],
        extensions: ["perf.data"], read: true, write: false,
    }
    /// speedscope's JSON.
    Speedscope {
        name: "speedscope", title: "speedscope JSON", aliases: [],
        extensions: ["speedscope.json", "speedscope"], read: true, write: true,
    }
    /// The Firefox profiler's processed JSON, as samply writes it too.
    Firefox {
        name: "firefox", title: "Firefox processed profile JSON", aliases: ["samply", "fxprof"],
        extensions: ["firefox.json", "fxprof.json"], read: true, write: true,
    }
    /// What Firefox itself writes before processing.
    Gecko {
        name: "gecko", title: "Gecko profile JSON", aliases: [], extensions: [], read: true, write: false,
    }
    /// V8's CPU profile.
    CpuProfile {
        name: "cpuprofile", title: "Chrome .cpuprofile", aliases: ["v8"],
        extensions: ["cpuprofile"], read: true, write: true,
    }
    /// Chrome's trace events, as `tracing-chrome` and Perfetto have them.
    TraceEvent {
        name: "chrome-trace", title: "Chrome trace-event JSON", aliases: ["trace", "trace-event", "chrome"],
        extensions: ["trace.json"], read: true, write: true,
    }
    /// OTLP profiles as protobuf, schema `v1development`.
    Otlp {
        name: "otlp", title: "OTLP profiles, protobuf (v1development)", aliases: ["opentelemetry"],
        extensions: ["otlp", "otlp.pb"], read: true, write: true,
    }
    /// OTLP profiles as JSON.
    OtlpJson {
        name: "otlp-json", title: "OTLP profiles, JSON (v1development)", aliases: [],
        extensions: ["otlp.json"], read: true, write: true,
    }
    /// callgrind's out file.
    Callgrind {
        name: "callgrind", title: "callgrind out", aliases: ["kcachegrind"],
        extensions: ["callgrind", "callgrind.out"], read: true, write: true,
    }
    /// cachegrind's out file.
    Cachegrind {
        name: "cachegrind", title: "cachegrind out", aliases: [],
        extensions: [], read: true, write: false,
    }
    /// massif's out file.
    Massif {
        name: "massif", title: "massif out", aliases: [], extensions: [], read: true, write: false,
    }
    /// DHAT's JSON, from valgrind or dhat-rs.
    Dhat {
        name: "dhat", title: "DHAT JSON", aliases: [], extensions: [], read: true, write: false,
    }
    /// heaptrack's data, raw or interpreted.
    Heaptrack {
        name: "heaptrack", title: "heaptrack, raw and interpreted (v1 to v3)", aliases: [],
        extensions: [], read: true, write: false,
    }
    /// jemalloc's heap dump.
    Jemalloc {
        name: "jemalloc", title: "jemalloc heap_v2", aliases: ["jeprof"], extensions: [], read: true, write: false,
    }
    /// The log of `strace`.
    Strace {
        name: "strace", title: "strace -f -T -ttt [-k] log", aliases: [], extensions: [], read: true, write: false,
    }
    /// The table of `strace -c`.
    StraceSummary {
        name: "strace-summary", title: "strace -c table", aliases: [], extensions: [], read: true, write: false,
    }
    /// bpftrace's maps.
    Bpftrace {
        name: "bpftrace", title: "bpftrace stack maps and histograms", aliases: [],
        extensions: [], read: true, write: false,
    }
    /// DTrace's aggregated stacks.
    Dtrace {
        name: "dtrace", title: "DTrace stacks", aliases: [], extensions: [], read: true, write: false,
    }
    /// The report of macOS' `sample`.
    MacSample {
        name: "sample", title: "macOS sample report", aliases: ["macos-sample"],
        extensions: [], read: true, write: false,
    }
    /// The XML of `xctrace export`.
    Xctrace {
        name: "xctrace", title: "xctrace export XML (time-profile)", aliases: ["instruments"],
        extensions: [], read: true, write: false,
    }
    /// Java Flight Recorder.
    Jfr {
        name: "jfr", title: "Java Flight Recorder", aliases: [], extensions: [], read: true, write: false,
    }
    /// A table, a line a sample.
    Csv {
        name: "csv", title: "CSV table, a line a sample", aliases: [],
        extensions: ["csv"], read: false, write: true,
    }
}

impl Format {
    /// The name to write on a command line.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The name for people.
    pub const fn title(self) -> &'static str {
        self.facts().title
    }

    /// Other names that are understood.
    pub const fn aliases(self) -> &'static [&'static str] {
        self.facts().aliases
    }

    /// How the names of such files end, without the first dot; the usual one first.
    pub const fn extensions(self) -> &'static [&'static str] {
        self.facts().extensions
    }

    /// Whether files of this format can be read.
    pub const fn can_read(self) -> bool {
        self.facts().read
    }

    /// Whether files of this format can be written.
    pub const fn can_write(self) -> bool {
        self.facts().write
    }

    /// Whether it can hold when each sample was taken.
    pub const fn holds_times(self) -> bool {
        !matches!(self, Format::Folded | Format::Callgrind | Format::Csv)
    }

    /// The format that a file named `path` should be written in, by the longest ending that fits.
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

    fn from_str(text: &str) -> Result<Self, Error> {
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
                format!("there is no format `{text}`; the formats are {}", names.join(", ")),
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
