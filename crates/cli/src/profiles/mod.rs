//! Turns the sources that the user names (files, `-`, addresses) into one profile.

pub(crate) mod bucket;
pub(crate) mod collected;
pub(crate) mod fetch;
pub(crate) mod history;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flamelet_profile::{Budget, ErrorKind, Limits, Profile, merge_within, pprof};
use flamelet_remote::read::Stored;
use flamelet_report::stacks::DIFF_BASE_LABEL;
use flamelet_symbol::locate::Search;

use crate::error::{About, Failure, Result};
use crate::output;
use collected::Which;
use fetch::FetchOptions;
use history::Range;

/// What to open, and how.
#[derive(Clone, Debug)]
pub(crate) struct SourceOptions {
    pub(crate) sources: Vec<String>,
    /// Profiles to subtract.
    pub(crate) base: Vec<String>,
    /// Profiles to compare with: percentages refer to them.
    pub(crate) diff_base: Vec<String>,
    /// Scale the profile so that its total equals the base's.
    pub(crate) normalize: bool,
    pub(crate) fetch: FetchOptions,
    /// The range to read, of a history or of a service that keeps one.
    pub(crate) range: Range,
    /// Which profiles of a collector's folder.
    pub(crate) which: Which,
    /// The limit on memory and work for reading, for all profiles together.
    pub(crate) limits: Limits,
    /// Do not keep the times of samples in memory, because the report does not use them.
    pub(crate) without_times: bool,
    pub(crate) symbols: SymbolOptions,
    /// Keep frames that the profile itself marks to be dropped, such as the allocator's.
    pub(crate) with_dropped_frames: bool,
    /// Which files may be opened.
    pub(crate) files: AllowedFiles,
}

/// Which files may be opened as profiles.
#[derive(Clone, Debug, Default)]
pub(crate) enum AllowedFiles {
    /// All: the user names them.
    #[default]
    Any,
    /// Regular files: their names come from a folder's listing.
    Regular,
    /// Regular files whose real path is below one of these folders: the paths come from another program.
    Below(Vec<PathBuf>),
}

impl AllowedFiles {
    fn open(&self, path: &Path) -> io::Result<File> {
        match self {
            // A path from the user may be a pipe: `/dev/stdin`, or a shell's `<(command)`.
            Self::Any => File::open(path),
            Self::Regular => flamelet_profile::open_regular(path),
            Self::Below(folders) => flamelet_profile::open_below(path, folders),
        }
    }
}

/// Where names come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct SymbolOptions {
    /// Do not look up names.
    pub(crate) skip: bool,
    /// Look up names again that are already there.
    pub(crate) force: bool,
    /// Binaries and folders with debug files.
    pub(crate) binaries: Vec<PathBuf>,
    /// Read only files below these folders, whatever a profile names, and nothing that the environment names.
    pub(crate) only_below: Option<Vec<PathBuf>>,
}

/// A profile, and notes on how it was opened.
pub(crate) struct Opened {
    pub(crate) profile: Profile,
    pub(crate) notes: Vec<String>,
}

/// Where the bytes of a profile come from.
enum ProfileInput {
    File(File),
    Stream(Box<dyn Read>),
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            base: Vec::new(),
            diff_base: Vec::new(),
            normalize: false,
            fetch: FetchOptions::default(),
            range: Range::default(),
            which: Which::default(),
            limits: Limits::PERSON,
            without_times: false,
            symbols: SymbolOptions::default(),
            with_dropped_frames: false,
            files: AllowedFiles::Any,
        }
    }
}

impl SourceOptions {
    /// Returns options for one file, with the defaults.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { sources: vec![path.to_string_lossy().into_owned()], ..Self::default() }
    }

    /// Returns whether there is something to subtract.
    pub(crate) fn has_base(&self) -> bool {
        !self.base.is_empty() || !self.diff_base.is_empty()
    }

    /// Warns of options for fetching from a service if no source is a service.
    pub(crate) fn note_unused(&self) {
        let mut sources = self.sources.iter().chain(&self.base).chain(&self.diff_base);
        let unused = self.fetch.given();
        if !unused.is_empty() && !sources.clone().any(|source| has_past(source)) {
            note!("{}: ignored, because no source is a service", unused.join(", "));
        }
        let is_collected = |source: &String| collected::part_of(source, self.range).is_some();
        if self.which != Which::default() && !sources.clone().any(is_collected) {
            note!("--service, --profile: ignored: they apply to a collector's store only");
        }
        let has_past = |source: &String| {
            has_past(source) || is_collected(source) || history::history_of(source, self.range).is_some()
        };
        if self.range.is_given() && !sources.any(has_past) {
            note!("--from, --to: ignored, because no source is the history of a service");
        }
    }

    /// Opens and combines everything.
    pub(crate) fn open(&self) -> Result<Opened> {
        let mut options = self.clone();
        options.take_binary();
        if !options.base.is_empty() && !options.diff_base.is_empty() {
            return Err(Failure::new("give only one of --base and --diff-base"));
        }
        if options.normalize && !options.has_base() {
            return Err(Failure::new("--normalize needs --base or --diff-base"));
        }
        options.note_unused();
        let mut notes = Vec::new();
        let budget = Budget::new(self.limits);
        let mut profile = options.open_all(&options.sources, &budget, &mut notes)?;
        let bases = if options.diff_base.is_empty() { &options.base } else { &options.diff_base };
        if options.has_base() {
            let mut base = options.open_all(bases, &budget, &mut notes)?;
            if !options.diff_base.is_empty() {
                base.label_all(DIFF_BASE_LABEL, "true");
            }
            if options.normalize {
                profile.normalize_to(&base)?;
            }
            base.scale(-1.0);
            profile = merge_within(&[&profile, &base], &budget)?;
        }
        let subject = if let [only] = &*options.sources { only } else { "the profiles" };
        if !options.with_dropped_frames {
            profile.drop_uninteresting().about(subject)?;
        }
        Ok(Opened { profile, notes })
    }

    /// Opens and combines everything into one pprof file.
    pub(crate) fn save(&self, path: Option<&Path>) -> Result<()> {
        if path.is_none() && io::stdout().is_terminal() {
            return Err(Failure::new("not writing a binary profile to the terminal; use -o FILE or a pipe"));
        }
        output::check(path)?;
        let opened = self.open()?;
        opened.notes.iter().for_each(|note| note!("{note}"));
        output::write(path, |out| Ok(pprof::write_gzip(&opened.profile, out)?))
    }

    /// Takes a binary that is named first as the place for symbols: `go tool pprof BINARY PROFILE`.
    pub(crate) fn take_binary(&mut self) {
        if self.sources.len() > 1 && is_elf(Path::new(&self.sources[0])) {
            let binary = self.sources.remove(0);
            self.symbols.binaries.push(binary.into());
        }
    }

    /// Opens profiles and adds them up, all within one budget.
    fn open_all(&self, sources: &[String], budget: &Budget, notes: &mut Vec<String>) -> Result<Profile> {
        let mut profiles = Vec::with_capacity(sources.len());
        for source in sources {
            let left = Self { limits: Limits { memory: budget.room(), ..self.limits }, ..self.clone() };
            let profile = left.open_one(source, notes)?;
            budget.charge(profile.byte_size()).about(source)?;
            profiles.push(profile);
        }
        match profiles.len() {
            0 => Err(Failure::new("no profile given; give a file, '-' or a URL")),
            1 => Ok(profiles.remove(0)),
            _ => Ok(merge_within(&profiles.iter().collect::<Vec<_>>(), budget)?),
        }
    }

    pub(crate) fn open_one(&self, source: &str, notes: &mut Vec<String>) -> Result<Profile> {
        #[cfg(target_os = "linux")]
        crate::large_pages::want();
        if let Some(found) = collected::part_of(source, self.range) {
            let mut profile = collected::open(&found?, &self.which, self.limits, notes)?;
            self.symbols.apply(&mut profile, notes);
            return Ok(profile);
        }
        if let Some(found) = history::history_of(source, self.range) {
            let mut profile = history::open(&found?, self.limits, notes)?;
            self.symbols.apply(&mut profile, notes);
            return Ok(profile);
        }
        let name = if source == "-" { "standard input" } else { source };
        let mut options = flamelet_formats::FormatOptions::default();
        options.limits = self.limits;
        options.timeline = !self.without_times;
        options.only_below = self.symbols.only_below.clone();
        let read = match self.reader(source)? {
            ProfileInput::File(file) => flamelet_formats::read_file(&file, &options),
            ProfileInput::Stream(stream) => flamelet_formats::read(stream, &options),
        };
        let read = read.map_err(point_at_formats).about(name)?;
        notes.extend(read.notes.iter().map(|note| format!("{name}: {note}")));
        let mut profile = read.profile;
        self.symbols.apply(&mut profile, notes);
        Ok(profile)
    }

    /// Returns the raw bytes of a file, of standard input, or of a service's answer.
    pub(crate) fn bytes(&self, source: &str) -> Result<Vec<u8>> {
        let cap = self.limits.memory;
        let mut bytes = Vec::new();
        let reader: Box<dyn Read> = match self.reader(source)? {
            ProfileInput::File(file) => Box::new(file),
            ProfileInput::Stream(stream) => stream,
        };
        reader.take(cap.saturating_add(1)).read_to_end(&mut bytes).about(source)?;
        if bytes.len() as u64 > cap {
            let cap = cap >> 20;
            return Err(Failure::new(format!(
                "{source}: larger than {cap} MiB; raise the limit with --max-memory"
            )));
        }
        Ok(bytes)
    }

    fn reader(&self, source: &str) -> Result<ProfileInput> {
        if source == "-" {
            return Ok(ProfileInput::Stream(Box::new(io::stdin().lock())));
        }
        let path = Path::new(source);
        if let Some(url) = fetch::profile_url(source, self.fetch.seconds).filter(|_| !path.exists()) {
            let url = url.in_range(self.range.from, self.range.to);
            let max_bytes = self.limits.memory;
            let options = FetchOptions { max_bytes, ..self.fetch.clone() };
            return Ok(ProfileInput::Stream(Box::new(io::Cursor::new(fetch::fetch(&url, &options)?))));
        }
        if let Some(stored) = Stored::parse(source, history::now()) {
            let stored = stored.about(source)?.within(self.range.from, self.range.to, history::now());
            let body = fetch::stored(&stored, &self.fetch, self.limits.memory).about(source)?;
            return Ok(ProfileInput::Stream(Box::new(io::Cursor::new(body))));
        }
        if source.contains("://") && !path.exists() {
            let message = "this is not the URL of a service; expected http://HOST:PORT";
            return Err(Failure::new(format!("{source}: {message}")));
        }
        let file = self.files.open(path).about(source)?;
        if file.metadata().about(source)?.is_dir() {
            return Err(Failure::new(format!("{source}: this is a folder; give the profiles in it")));
        }
        if begins_as_elf(&file) {
            let message = "this is a program, not a profile; record it with: flamelet record -- ";
            return Err(Failure::new(format!("{source}: {message}{source}")));
        }
        Ok(ProfileInput::File(file))
    }
}

impl SymbolOptions {
    /// Looks up the names that are missing.
    pub(crate) fn apply(&self, profile: &mut Profile, notes: &mut Vec<String>) {
        if self.skip || !(self.force || needs_symbols(profile)) {
            return;
        }
        let options = self.symbolizer_options();
        let summary = flamelet_symbol::symbolize::symbolize_profile(profile, &options);
        notes.extend(by_warning(summary.warnings()));
    }
}

/// Returns a line for each warning, with the files that it is about.
fn by_warning<'a>(warnings: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
    for (file, warning) in warnings {
        let file = if file.is_empty() { "code without a file" } else { file };
        match files.iter_mut().find(|(known, _)| *known == warning) {
            // A file may be mapped by several processes of a profile.
            Some((_, of)) if of.contains(&file) => {}
            Some((_, of)) => of.push(file),
            None => files.push((warning, vec![file])),
        }
    }
    let line = |(warning, of): (&str, Vec<&str>)| match &of[..] {
        [one] => format!("{one}: {warning}"),
        [first, second] => format!("{first} and {second}: {warning}"),
        [first, rest @ ..] => format!("{first} and {} other files: {warning}", rest.len()),
        [] => warning.to_owned(),
    };
    files.into_iter().map(line).collect()
}

impl SymbolOptions {
    /// Returns where and how to look for names.
    pub(crate) fn symbolizer_options(&self) -> flamelet_symbol::symbolize::SymbolizeOptions {
        let search = match &self.only_below {
            None => Search::from_environment(),
            Some(folders) => Search { only_below: Some(folders.clone()), ..Search::default() },
        };
        let mut options =
            flamelet_symbol::symbolize::SymbolizeOptions { search, force: self.force, ..Default::default() };
        for path in &self.binaries {
            let list = if path.is_dir() { &mut options.search.folders } else { &mut options.search.binaries };
            list.push(path.canonicalize().unwrap_or_else(|_| path.clone()));
        }
        options
    }
}

fn needs_symbols(profile: &Profile) -> bool {
    profile.locations().iter().any(|location| location.address != 0 && profile.lines_of(location).is_empty())
}

/// Returns whether a source is a service rather than a file.
pub(crate) fn is_service(source: &str) -> bool {
    fetch::profile_url(source, None).is_some() && !Path::new(source).exists()
}

/// Returns whether a source is a service or a store that can return a time range.
fn has_past(source: &str) -> bool {
    is_service(source) || Stored::parse(source, 0).is_some()
}

/// Returns whether a file is a binary.
pub(crate) fn is_elf(path: &Path) -> bool {
    flamelet_profile::open_regular(path).is_ok_and(|file| begins_as_elf(&file))
}

/// Returns whether an open file is a binary. Does not read from a pipe.
fn begins_as_elf(file: &File) -> bool {
    let mut magic = [0u8; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && &magic == b"\x7fELF"
}

/// Adds where the formats are listed, if a file is in none of them.
fn point_at_formats(error: flamelet_formats::Error) -> flamelet_formats::Error {
    match error.kind() {
        kind @ ErrorKind::UnknownFormat => flamelet_formats::Error::new(
            kind,
            format!("{error}; `flamelet convert --help` lists the formats"),
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::by_warning;

    #[test]
    fn files_with_the_same_warning_share_a_line() {
        let warnings =
            [("a", "no names"), ("b", "no names"), ("a", "no names"), ("c", "damaged"), ("d", "no names")];
        assert_eq!(by_warning(warnings[..3].iter().copied()), ["a and b: no names"]);
        assert_eq!(by_warning(warnings.into_iter()), ["a and 2 other files: no names", "c: damaged"]);
        assert_eq!(by_warning([("", "no names")].into_iter()), ["code without a file: no names"]);
    }
}
