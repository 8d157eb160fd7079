//! Source code with the cost of each line: the data of `list`.

mod path;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use flamelet_profile::{Function, Profile};
use rustc_hash::FxHashMap;

use crate::{Error, ErrorKind, Result};

pub use path::{Reach, SourcePath, confirmed_sources};

/// How many lines to show before the first and after the last line with a cost, like pprof.
const MARGIN: i64 = 5;
/// Larger files are not source code.
const LARGEST_SOURCE: u64 = 64 << 20;
/// A window is not longer than this, whatever line numbers the profile claims.
const LONGEST_WINDOW: i64 = 100_000;

/// A function with the cost of each of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedFunction {
    /// Its name.
    pub name: String,
    /// The file as the profile names it. A function whose lines come from two files is listed twice.
    pub file: String,
    /// The path where the file was found, or why it was not.
    pub found: std::result::Result<PathBuf, String>,
    /// The cost of its lines alone.
    pub flat: i64,
    /// The sum of [`AnnotatedLine::cumulative`], as `go tool pprof` prints it: a recursive function is counted once
    /// for each of its lines on the stack.
    pub cumulative: i64,
    /// The lines from shortly before the first to shortly after the last that has a cost; if the file was not found,
    /// only those with a cost.
    pub lines: Vec<AnnotatedLine>,
}

/// A line of source code and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedLine {
    /// Its number, from 1.
    pub line: i64,
    /// The cost of the line itself.
    pub flat: i64,
    /// The cost of the line and of what it calls.
    pub cumulative: i64,
    /// The text, without the line end; empty if the file was not found.
    pub text: String,
}

/// Returns the functions of `profile` whose name `matches`, with the cost of each line in the value at
/// `sample_index`; the functions with the highest cost first.
pub fn annotate(
    profile: &Profile,
    sample_index: usize,
    matches: impl Fn(&str) -> bool,
    sources: &SourcePath,
) -> Vec<AnnotatedFunction> {
    let mut tally = Tally::new(profile, matches);
    tally.add_samples(profile, sample_index);
    let mut files: FxHashMap<String, SourceFile> = FxHashMap::default();
    let mut functions: Vec<AnnotatedFunction> = tally
        .by_function()
        .into_iter()
        .map(|((name, file), costs)| {
            let source = files.entry(file.clone()).or_insert_with(|| SourceFile::read(&file, sources));
            annotated(name, file, &costs, source)
        })
        .collect();
    functions.sort_by(|a, b| {
        b.cumulative.abs().cmp(&a.cumulative.abs()).then_with(|| (&a.name, &a.file).cmp(&(&b.name, &b.file)))
    });
    functions
}

/// The cost of one line of one function.
#[derive(Clone, Copy, Debug, Default)]
struct LineCost {
    flat: i64,
    cumulative: i64,
    start_line: i64,
}

/// Adds up costs. Lines of matching functions are numbered ("slots") so that samples only add to arrays.
struct Tally {
    /// For each location, the slots of its frames, and whether the innermost frame is the first of them.
    slots_of_location: Vec<(Vec<u32>, bool)>,
    slots: Vec<(String, String, i64, LineCost)>,
}

impl Tally {
    fn new(profile: &Profile, matches: impl Fn(&str) -> bool) -> Self {
        let wanted: Vec<bool> =
            profile.functions().iter().map(|function| matches(profile.string(function.name))).collect();
        let mut slots = Vec::new();
        let mut known: FxHashMap<(&str, &str, i64), u32> = FxHashMap::default();
        let slots_of_location = profile.locations().iter().map(|location| {
            let mut own = Vec::new();
            let mut has_leaf = false;
            for (depth, line) in profile.lines_of(location).iter().enumerate() {
                let Some(id) = line.function.filter(|id| wanted[id.index()]) else { continue };
                let function: &Function = profile.function(id);
                let (name, file) = (profile.string(function.name), profile.string(function.filename));
                let slot = *known.entry((name, file, line.line)).or_insert_with(|| {
                    let cost = LineCost { start_line: function.start_line, ..LineCost::default() };
                    slots.push((name.to_owned(), file.to_owned(), line.line, cost));
                    slots.len() as u32 - 1
                });
                has_leaf |= depth == 0;
                own.push(slot);
            }
            (own, has_leaf)
        });
        Self { slots_of_location: slots_of_location.collect(), slots }
    }

    fn add_samples(&mut self, profile: &Profile, sample_index: usize) {
        let mut last_seen = vec![usize::MAX; self.slots.len()];
        for (number, sample) in profile.samples().enumerate() {
            let value = sample.values.get(sample_index).copied().unwrap_or(0);
            for (depth, location) in profile.stack(sample.stack).iter().enumerate() {
                let (slots, has_leaf) = &self.slots_of_location[location.index()];
                for (position, &slot) in slots.iter().enumerate() {
                    let cost = &mut self.slots[slot as usize].3;
                    if depth == 0 && position == 0 && *has_leaf {
                        cost.flat = cost.flat.saturating_add(value);
                    }
                    // A line counts once per sample, no matter how often it is on the stack.
                    if std::mem::replace(&mut last_seen[slot as usize], number) != number {
                        cost.cumulative = cost.cumulative.saturating_add(value);
                    }
                }
            }
        }
    }

    fn by_function(self) -> BTreeMap<(String, String), BTreeMap<i64, LineCost>> {
        let mut functions: BTreeMap<(String, String), BTreeMap<i64, LineCost>> = BTreeMap::new();
        for (name, file, line, cost) in self.slots {
            if cost.flat != 0 || cost.cumulative != 0 {
                functions.entry((name, file)).or_default().insert(line, cost);
            }
        }
        functions
    }
}

struct SourceFile {
    found: std::result::Result<PathBuf, String>,
    lines: Vec<String>,
}

impl SourceFile {
    fn read(name: &str, sources: &SourcePath) -> Self {
        match Self::open(name, sources) {
            Ok((path, lines)) => Self { found: Ok(path), lines },
            Err(error) => Self { found: Err(error.to_string()), lines: Vec::new() },
        }
    }

    fn open(name: &str, sources: &SourcePath) -> Result<(PathBuf, Vec<String>)> {
        let (path, file) = sources.open(name)?;
        let in_file = |error: std::io::Error| Error::from(error).in_file(&path);
        let size = file.metadata().map_err(in_file)?.len();
        if size > LARGEST_SOURCE {
            return Err(Error::new(ErrorKind::TooLarge, "too large for source code").in_file(&path));
        }
        let mut text = Vec::new();
        file.take(size).read_to_end(&mut text).map_err(in_file)?;
        let lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
        Ok((path, lines))
    }
}

fn annotated(
    name: String,
    file: String,
    costs: &BTreeMap<i64, LineCost>,
    source: &SourceFile,
) -> AnnotatedFunction {
    let annotate = |line: i64| {
        let cost = costs.get(&line).copied().unwrap_or_default();
        let index = usize::try_from(line - 1).ok();
        let text = index.and_then(|index| source.lines.get(index)).cloned().unwrap_or_default();
        AnnotatedLine { line, flat: cost.flat, cumulative: cost.cumulative, text }
    };
    let lines = match source.found {
        Ok(_) => {
            let (first, last) = window(costs, source.lines.len() as i64);
            // Costs at lines that the file does not have are still shown: the file may have changed.
            let beyond = costs.keys().copied().filter(|&line| line < first || line > last);
            let mut numbers: Vec<i64> = (first..=last).chain(beyond).collect();
            numbers.sort_unstable();
            numbers.into_iter().map(annotate).collect()
        }
        Err(_) => costs.keys().map(|&line| annotate(line)).collect(),
    };
    AnnotatedFunction {
        name,
        file,
        found: source.found.clone(),
        flat: costs.values().fold(0, |sum, cost| sum.saturating_add(cost.flat)),
        cumulative: costs.values().fold(0, |sum, cost| sum.saturating_add(cost.cumulative)),
        lines,
    }
}

/// Returns the first and the last line to show.
fn window(costs: &BTreeMap<i64, LineCost>, line_count: i64) -> (i64, i64) {
    let first_of = |(&line, cost): (&i64, &LineCost)| match cost.start_line {
        0 => line.saturating_sub(MARGIN),
        start => start.min(line),
    };
    let first = costs.iter().filter(|&(&line, _)| line > 0).map(first_of).min().unwrap_or(1);
    let last = costs.keys().max().map_or(0, |&line| line.saturating_add(MARGIN));
    let first = first.max(1);
    (first, last.min(line_count).min(first.saturating_add(LONGEST_WINDOW)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_pprof() {
        let costs = |rows: &[(i64, i64)]| -> BTreeMap<i64, LineCost> {
            rows.iter()
                .map(|&(line, start_line)| (line, LineCost { start_line, ..LineCost::default() }))
                .collect()
        };
        assert_eq!(window(&costs(&[(20, 0), (30, 0)]), 100), (15, 35));
        assert_eq!(window(&costs(&[(20, 12), (30, 12)]), 32), (12, 32));
        assert_eq!(window(&costs(&[(2, 0)]), 100), (1, 7));
        assert_eq!(window(&costs(&[(0, 0)]), 100), (1, 5));
    }
}
