//! Writes folded stacks.

use std::hash::BuildHasher;
use std::io::Write;

use flamelet_profile::{Budget, LocationId, Profile, Result};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::units_in_count;
use crate::Limits;
use crate::assembly::ByteIndex;
use crate::frames::{FrameTable, value_type};
use crate::output::Output;

/// Writes one value as folded stacks.
pub(crate) fn write(profile: &Profile, Output { out, options, notes }: Output<'_>) -> Result<()> {
    let index = options.sample_index(profile)?;
    notes.dropped_values(profile, index);
    notes.dropped_labels(profile);
    notes.dropped_places(profile, "lines, files and addresses");
    notes.dropped_timeline(profile);
    notes.dropped_comments(profile);
    let units = units_in_count(value_type(profile, index).1);
    let mut names = FrameNames::of(profile);
    let (mut rows, mut zero) = (SummedLines::default(), 0u64);
    for sample in profile.samples() {
        match sample.values[index] {
            0 => zero += 1,
            value => rows.add(profile.stack(sample.stack), value, &mut names),
        }
    }
    let (mut start, mut line) = (0, Vec::new());
    for &(end, value) in &rows.sums {
        line.clear();
        for &name in &rows.frames[start..end] {
            line.extend_from_slice(names.text(name));
        }
        start = end;
        line.pop();
        writeln!(line, " {}", FoldedCount { value, units })?;
        out.write_all(&line)?;
    }
    if zero > 0 {
        notes.push(format!("{zero} samples whose value is 0 are not written"));
    }
    Ok(())
}

/// The lines to write. Samples that differ only in what is dropped become one line, at the place of the first.
#[derive(Default)]
struct SummedLines {
    /// The frames of all lines, root first, and the end of each line's frames with its value.
    frames: Vec<u32>,
    sums: Vec<(usize, i64)>,
    index: HashTable<(u64, usize)>,
}

impl SummedLines {
    fn add(&mut self, stack: &[LocationId], value: i64, names: &mut FrameNames<'_>) {
        let start = self.frames.len();
        for &location in stack.iter().rev() {
            names.push(location, &mut self.frames);
        }
        let (before, line) = self.frames.split_at(start);
        let sums = &mut self.sums;
        let start_of = |row: usize, sums: &[(usize, i64)]| if row == 0 { 0 } else { sums[row - 1].0 };
        let hash = FxBuildHasher.hash_one(line);
        let same = |known: &(u64, usize)| {
            known.0 == hash && before[start_of(known.1, sums)..sums[known.1].0] == *line
        };
        if let Some(&(_, row)) = self.index.find(hash, same) {
            sums[row].1 = sums[row].1.saturating_add(value);
            self.frames.truncate(start);
            return;
        }
        self.index.insert_unique(hash, (hash, sums.len()), |known| known.0);
        sums.push((self.frames.len(), value));
    }
}

/// The names of frames as written in lines, each stored once.
struct FrameNames<'a> {
    table: FrameTable<'a>,
    /// The number of each frame's name.
    by_frame: Vec<u32>,
    texts: ByteIndex<u32>,
    /// Where each name ends in `text`, including its semicolon.
    ends: Vec<usize>,
    text: Vec<u8>,
}

impl<'a> FrameNames<'a> {
    fn of(profile: &'a Profile) -> Self {
        Self {
            table: FrameTable::by_function(profile),
            by_frame: Vec::new(),
            texts: ByteIndex::new(&Budget::new(Limits::NONE)),
            ends: vec![0],
            text: Vec::new(),
        }
    }

    fn text(&self, name: u32) -> &[u8] {
        &self.text[self.ends[name as usize]..self.ends[name as usize + 1]]
    }

    /// Appends the names of a location's frames, root first.
    fn push(&mut self, location: LocationId, into: &mut Vec<u32>) {
        let start = into.len();
        self.table.location(location, into);
        self.name_new_frames();
        into[start..].iter_mut().for_each(|number| *number = self.by_frame[*number as usize]);
    }

    fn name_new_frames(&mut self) {
        for number in self.by_frame.len()..self.table.frames().len() {
            let start = self.text.len();
            push_name(&mut self.text, &self.table.frames()[number].name);
            self.text.push(b';');
            let name = match self.texts.get(&self.text[start..]) {
                Some(known) => {
                    self.text.truncate(start);
                    known
                }
                None => {
                    let name = self.ends.len() as u32 - 1;
                    self.texts.insert(&self.text[start..], name);
                    self.ends.push(self.text.len());
                    name
                }
            };
            self.by_frame.push(name);
        }
    }
}

/// Appends a frame's name without the characters that would end it.
fn push_name(line: &mut Vec<u8>, name: &str) {
    line.extend(name.bytes().map(|byte| match byte {
        b';' => b':',
        b'\n' | b'\r' => b' ',
        other => other,
    }));
}

struct FoldedCount {
    value: i64,
    units: i64,
}

impl std::fmt::Display for FoldedCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.units.ilog10() as usize;
        match digits {
            0 => write!(f, "{}", self.value),
            _ => write!(f, "{:.digits$}", self.value as f64 / self.units as f64),
        }
    }
}
