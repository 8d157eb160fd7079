//! A folder for a test, and profiles to put into it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flamelet_collect::{Collector, Offered, Options, Outside, Query, Reader};
use flamelet_profile::{Budget, LabelSetId, Limits, Line, Profile, ProfileBuilder, pprof};

/// 15 January 2026, 10:00 UTC, which the questions of docs/fleet.md ask about.
pub(crate) const T0: i64 = 1_768_471_200_000_000_000;
pub(crate) const HOUR: i64 = 3_600_000_000_000;

/// A collector that fetches nothing.
pub(crate) struct Nowhere;

impl Outside for Nowhere {
    fn note(&self, message: &str) {
        panic!("unexpected: {message}");
    }
}

/// Like [`Nowhere`], and remembers the messages to the user.
#[derive(Clone, Default)]
pub(crate) struct Noting(Arc<Mutex<Vec<String>>>);

impl Noting {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Outside for Noting {
    fn note(&self, message: &str) {
        self.0.lock().expect("no panic").push(message.to_owned());
    }
}

pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(self.path());
        options.keep = Duration::from_secs(100 * 365 * 86_400);
        options
    }

    pub(crate) fn open(&self) -> Collector {
        self.open_with(self.options())
    }

    pub(crate) fn open_with(&self, options: Options) -> Collector {
        Collector::open(options, Box::new(Nowhere)).expect("opened")
    }

    pub(crate) fn profile(&self, service: &str, name: &str, from: i64, to: i64) -> Option<Profile> {
        let reader = Reader::open(self.path()).expect("opened");
        let query = Query::new(service, name, from, to);
        let (profile, notes) = reader.profile(&query, &Budget::new(Limits::SERVICE)).expect("read");
        assert_eq!(notes, Vec::<String>::new());
        profile
    }

    /// Returns the sums of both values of the CPU profile.
    pub(crate) fn total(&self, service: &str, from: i64, to: i64) -> Option<(i64, i64)> {
        self.profile(service, "process_cpu", from, to).map(|profile| totals(&profile))
    }

    pub(crate) fn services(&self) -> Vec<String> {
        Reader::open(self.path()).expect("opened").services(&Budget::new(Limits::SERVICE)).expect("read")
    }

    /// Returns the paths of all files, relative to the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => files.push(self.relative(&entry.path())),
                }
            }
        }
        files.sort();
        files
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.path()).expect("inside").to_string_lossy().into_owned()
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        let parquet = self.files().into_iter().filter(|name| name.ends_with(".parquet"));
        parquet.map(|name| std::fs::metadata(self.path().join(name)).expect("there").len()).sum()
    }

    /// Copies the folder as it is now, as a crash would leave it.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        for name in self.files() {
            let to: PathBuf = copy.path().join(&name);
            std::fs::create_dir_all(to.parent().expect("a parent")).expect("made");
            std::fs::copy(self.path().join(&name), to).expect("copied");
        }
        copy
    }

    /// Adds the files of another folder whose paths begin so.
    pub(crate) fn add_from(&self, other: &Self, prefix: &str) {
        for name in other.files().into_iter().filter(|name| name.starts_with(prefix)) {
            let to = self.path().join(&name);
            std::fs::create_dir_all(to.parent().expect("a parent")).expect("made");
            std::fs::copy(other.path().join(&name), to).expect("copied");
        }
    }
}

pub(crate) fn totals(profile: &Profile) -> (i64, i64) {
    (profile.total(0), profile.total(1))
}

/// Returns a CPU profile of stacks with counts; each sample is 10 ns.
pub(crate) fn cpu(time: i64, stacks: &[(&str, i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.set_period("cpu", "nanoseconds", 10_000_000);
    builder.header_mut().time_nanos = time;
    builder.header_mut().duration_nanos = 10_000_000_000;
    let mapping = builder.file_mapping(0x1000..0x9000, 0, "/bin/checkout", "ab01");
    for (stack, count) in stacks {
        let frames: Vec<_> = stack
            .split(';')
            .rev()
            .map(|name| {
                let function = Some(builder.named_function(name, "src/main.rs"));
                let address =
                    0x1000 + name.bytes().fold(0u64, |sum, byte| (sum * 31 + u64::from(byte)) % 0x7fff);
                builder.location(Some(mapping), address, &[Line { function, line: 7, column: 0 }])
            })
            .collect();
        let stack = builder.stack(&frames);
        builder.sample(stack, LabelSetId::EMPTY, &[*count, *count * 10]);
    }
    builder.finish()
}

pub(crate) fn heap(time: i64, allocated: i64, in_use: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]);
    builder.header_mut().time_nanos = time;
    let frame = builder.named_frame("allocate");
    let stack = builder.stack(&[frame]);
    builder.sample(stack, LabelSetId::EMPTY, &[allocated, in_use]);
    builder.finish()
}

pub(crate) fn offered(service: &str, labels: &[(&str, &str)], profile: &Profile) -> Offered {
    let mut bytes = Vec::new();
    pprof::write_gzip(profile, &mut bytes).expect("written");
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Offered { service: service.to_owned(), labels, is_delta: true, bytes, ..Offered::default() }
}
