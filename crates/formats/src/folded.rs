//! Folded stacks: `root;middle;leaf 42`, one stack per line, as written by flame graph scripts, `inferno` and
//! `tracing-flame`.
//!
//! Two counts at the end of every line mean a differential file: they become the values `before` and `after`. Counts
//! with a fraction are kept as thousandths or millionths of a count.

mod write;

use flamelet_profile::{Budget, ErrorKind, LabelSetId, LocationId, Profile, Result};

use crate::assembly::{Assembly, ByteIndex};
use crate::input::{Input, is_binary};
use crate::number::{decimal, float, to_count};
use crate::{Error, FormatOptions, Notes};
pub(crate) use write::write;

/// Reads folded stacks.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let differential = looks_differential(input.head(), input.head_is_all());
    let mut reader = FoldedReader::new(differential, &input.budget().clone());
    let mut lines = input.lines();
    while let Some(line) = lines.next()? {
        if !reader.line(line) {
            reader.skipped(lines.number());
        }
    }
    reader.finish(notes)
}

/// Returns whether `head` looks like folded stacks: nearly every line has a stack and ends in a count, or there are many
/// such lines between others.
pub(crate) fn recognise(head: &[u8], head_is_all: bool) -> bool {
    if is_binary(head) {
        return false;
    }
    let (mut good, mut bad, mut joined) = (0u32, 0u32, 0u32);
    for line in complete_lines(head, head_is_all).filter(|line| is_stack_line(line)).take(200) {
        match split_count(line) {
            Some((stack, _)) if !stack.is_empty() && !line[0].is_ascii_whitespace() => {
                good += 1;
                joined += u32::from(stack.contains(&b';'));
            }
            _ => bad += 1,
        }
    }
    // Files in which messages are mixed with stacks have at least as many stacks of several frames as other lines.
    let is_mixed = joined >= 3 && joined >= bad;
    good > 0 && (is_mixed || bad * 10 <= good && (joined > 0 || bad == 0))
}

/// Returns whether most of `head` is the beginning of a stack whose line does not end inside it.
pub(crate) fn may_have_long_line(head: &[u8]) -> bool {
    let last = memchr::memrchr(b'\n', head).map_or(head, |at| &head[at + 1..]);
    last.len() > head.len() / 2 && last.contains(&b';')
}

fn looks_differential(head: &[u8], head_is_all: bool) -> bool {
    let mut lines =
        complete_lines(head, head_is_all).filter(|line| is_stack_line(line)).take(1000).peekable();
    let two_counts = |line: &[u8]| {
        let before = split_count(line).and_then(|(stack, _)| split_count(stack));
        before.is_some_and(|(stack, _)| !stack.is_empty())
    };
    lines.peek().is_some() && lines.all(two_counts)
}

/// Returns the lines of `head` without the last one, which may be cut off.
fn complete_lines(head: &[u8], head_is_all: bool) -> impl Iterator<Item = &[u8]> {
    let end = if head_is_all { head.len() } else { memchr::memrchr(b'\n', head).unwrap_or(head.len()) };
    head[..end].split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns whether a line is neither empty, nor a comment, nor one of valgrind's messages.
fn is_stack_line(line: &[u8]) -> bool {
    !line.trim_ascii().is_empty() && line[0] != b'#' && !line.starts_with(b"==")
}

/// Splits a line into the stack and the count at its end.
fn split_count(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_end();
    let at = line.iter().rposition(|&byte| byte == b' ' || byte == b'\t')?;
    let count = &line[at + 1..];
    (decimal(count).is_some() || float(count).is_some()).then(|| (line[..at].trim_ascii_end(), count))
}

/// The factor by which counts are multiplied before they are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
struct CountScale(i64);

impl CountScale {
    const UNITS: [(i64, &'static str); 3] = [(1, "count"), (1_000, "thousandths"), (1_000_000, "millionths")];

    fn unit(self) -> &'static str {
        Self::UNITS.iter().find(|(factor, _)| *factor == self.0).map_or("count", |(_, unit)| unit)
    }

    /// Returns the scale that `count` needs.
    fn for_count(count: &[u8]) -> Self {
        match memchr::memchr(b'.', count).map_or(0, |dot| count.len() - dot - 1) {
            0 => CountScale(1),
            1..=3 => CountScale(1_000),
            _ => CountScale(1_000_000),
        }
    }
}

/// Returns how many `unit`s make one count of a folded file; see [`CountScale`].
fn units_in_count(unit: &str) -> i64 {
    CountScale::UNITS.iter().find(|(_, name)| *name == unit).map_or(1, |(factor, _)| *factor)
}

struct FoldedReader {
    assembly: Assembly,
    frames: ByteIndex<LocationId>,
    differential: bool,
    scale: CountScale,
    /// The stack of the previous line, and where each of its frames ends: files are mostly sorted, so consecutive
    /// lines start with the same frames.
    previous: Vec<u8>,
    ends: Vec<usize>,
    locations: Vec<LocationId>,
    leaf_first: Vec<LocationId>,
    skipped: u64,
    first_skipped: String,
}

impl FoldedReader {
    fn new(differential: bool, budget: &Budget) -> Self {
        let mut assembly = Assembly::new(false, budget);
        if differential {
            assembly.column("before", "count");
            assembly.column("after", "count");
        } else {
            assembly.column("samples", "count");
        }
        Self {
            assembly,
            frames: ByteIndex::new(budget),
            differential,
            scale: CountScale(1),
            previous: Vec::new(),
            ends: Vec::new(),
            locations: Vec::new(),
            leaf_first: Vec::new(),
            skipped: 0,
            first_skipped: String::new(),
        }
    }

    /// Takes one line; returns false if it is not a stack.
    fn line(&mut self, line: &[u8]) -> bool {
        if !is_stack_line(line) {
            return true;
        }
        let Some((stack, count)) = split_count(line) else { return false };
        if !self.differential {
            return self.sample(stack, &[count]);
        }
        match split_count(stack) {
            Some((stack, before)) => self.sample(stack, &[before, count]),
            None => false,
        }
    }

    fn sample(&mut self, stack: &[u8], counts: &[&[u8]]) -> bool {
        for (column, count) in counts.iter().enumerate() {
            self.grow_scale(CountScale::for_count(count));
            let Some(value) = self.value(count) else { return false };
            if column == 0 {
                self.intern_stack(stack);
            }
            let row = self.assembly.row(&self.leaf_first, LabelSetId::EMPTY);
            self.assembly.add(row, column, value);
        }
        true
    }

    fn value(&self, count: &[u8]) -> Option<i64> {
        match decimal(count) {
            Some(whole) => Some(i64::try_from(whole).unwrap_or(i64::MAX).saturating_mul(self.scale.0)),
            None => float(count).map(|number| to_count(number * self.scale.0 as f64)),
        }
    }

    fn grow_scale(&mut self, needed: CountScale) {
        if needed > self.scale {
            for column in 0..self.assembly.column_count() {
                self.assembly.rescale(column, needed.0 / self.scale.0, needed.unit());
            }
            self.scale = needed;
        }
    }

    fn intern_stack(&mut self, stack: &[u8]) {
        self.reuse_common_frames(stack);
        let mut start = self.ends.last().map_or(0, |&end| end + 1);
        while start < stack.len() {
            let end = memchr::memchr(b';', &stack[start..]).map_or(stack.len(), |at| start + at);
            let location = self.frame(&stack[start..end]);
            self.locations.push(location);
            self.ends.push(end);
            start = end + 1;
        }
        self.previous.clear();
        self.previous.extend_from_slice(stack);
        self.leaf_first.clear();
        self.leaf_first.extend(self.locations.iter().rev());
    }

    /// Keeps the frames that `stack` has in common with the previous stack.
    fn reuse_common_frames(&mut self, stack: &[u8]) {
        let common = self.previous.iter().zip(stack).take_while(|(a, b)| a == b).count();
        let keeps = |end: &usize| *end <= common && stack.get(*end).is_none_or(|&byte| byte == b';');
        let kept = self.ends.iter().take_while(|end| keeps(end)).count();
        self.ends.truncate(kept);
        self.locations.truncate(kept);
    }

    fn frame(&mut self, name: &[u8]) -> LocationId {
        if let Some(found) = self.frames.get(name) {
            return found;
        }
        let id = self.assembly.frame(&String::from_utf8_lossy(name), "", 0);
        self.frames.insert(name, id);
        id
    }

    fn skipped(&mut self, number: u64) {
        if self.skipped == 0 {
            self.first_skipped = format!("line {number} does not end in a count");
        }
        self.skipped += 1;
    }

    fn finish(mut self, notes: &mut Notes) -> Result<Profile> {
        if self.assembly.row_count() == 0 && self.skipped > 0 {
            return Err(Error::new(ErrorKind::Corrupt, format!("no folded stacks: {}", self.first_skipped)));
        }
        if self.skipped > 0 {
            notes.push(format!("{} lines skipped: {}", self.skipped, self.first_skipped));
        }
        if self.scale.0 != 1 {
            notes.push(format!(
                "counts have fractions: values are in units of {} of a count",
                self.scale.unit()
            ));
        }
        if self.differential {
            notes.push("two counts per line: the values are `before` and `after`".into());
            let after = self.assembly.builder.string("after");
            self.assembly.builder.header_mut().default_sample_type = after;
        }
        self.assembly.finish()
    }
}
