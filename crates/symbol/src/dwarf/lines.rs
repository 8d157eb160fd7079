//! The line table: maps addresses to file, line and column, in one run of the unit's line program.

use std::sync::Arc;

use gimli::{ColumnType, IncompleteLineProgram, LineProgramHeader, LineRow, Reader, UnitRef};
use rustc_hash::FxHashMap;

use crate::Result;
use crate::dwarf::Slice;
use crate::dwarf::units::is_discarded;
use crate::elf::patience::Patience;
use crate::names::NameTable;

/// A place in the source, with the unit's number of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourcePlace {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl SourcePlace {
    fn of(row: &LineRow) -> Self {
        let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
        let column = match row.column() {
            ColumnType::LeftEdge => 0,
            ColumnType::Column(column) => u32::try_from(column.get()).unwrap_or(0),
        };
        // Line 0 stands for code without a source, for which a column is meaningless.
        Self { file: row.file_index(), line, column: if line == 0 { 0 } else { column } }
    }
}

/// Finds the place of each of `addresses` (sorted). `places` has the same length; known places are kept.
pub(super) fn find_places(
    program: IncompleteLineProgram<Slice<'_>>,
    addresses: &[u64],
    places: &mut [Option<SourcePlace>],
    patience: &Patience,
) -> Result<()> {
    let mut rows = program.rows();
    let mut missing = places.iter().filter(|place| place.is_none()).count();
    // The last row of the current sequence, and the first address that is not below it.
    let mut last: Option<(u64, SourcePlace)> = None;
    let mut next = 0;
    while missing > 0 {
        patience.spend(1)?;
        let Some((_, row)) = rows.next_row()? else { break };
        let address = row.address();
        match last {
            None => next = addresses.partition_point(|&wanted| wanted < address),
            Some((start, place)) if addresses.get(next).is_some_and(|&wanted| wanted < address) => {
                let discarded = is_discarded(start);
                while let Some(&wanted) = addresses.get(next).filter(|&&wanted| wanted < address) {
                    if wanted >= start && !discarded && places[next].is_none() {
                        places[next] = Some(place);
                        missing -= 1;
                    }
                    next += 1;
                }
            }
            Some(_) => {}
        }
        last = (!row.end_sequence()).then(|| (address, SourcePlace::of(row)));
    }
    Ok(())
}

/// The steps that reading a path counts as: its parts may be long.
const PATH_COST: usize = 1 << 12;

/// The files of one unit, whose paths are built on demand.
pub(super) struct FileNames<'f, 'd> {
    unit: UnitRef<'f, Slice<'d>>,
    known: FxHashMap<u64, Arc<str>>,
    patience: &'f Patience,
}

impl<'f, 'd> FileNames<'f, 'd> {
    pub(super) fn new(unit: UnitRef<'f, Slice<'d>>, patience: &'f Patience) -> Self {
        Self { unit, known: FxHashMap::default(), patience }
    }

    /// Returns the path of the file with this number; empty if there is none, or no time to read it.
    pub(super) fn path(&mut self, file: u64, names: &mut NameTable) -> Arc<str> {
        if let Some(known) = self.known.get(&file) {
            return known.clone();
        }
        let is_in_time = self.patience.spend(PATH_COST).is_ok();
        let path = is_in_time.then(|| self.render(file)).flatten().unwrap_or_default();
        let path = names.string(&path);
        self.known.insert(file, path.clone());
        path
    }

    fn render(&self, file: u64) -> Option<String> {
        let header: &LineProgramHeader<Slice<'d>> = self.unit.line_program.as_ref()?.header();
        let entry = header.file(file)?;
        let mut path = String::new();
        if let Some(directory) = &self.unit.comp_dir {
            path.push_str(&directory.to_string_lossy().ok()?);
        }
        // Directory 0 is the compilation directory itself.
        if entry.directory_index() != 0
            && let Some(directory) = entry.directory(header)
        {
            push(&mut path, &self.unit.attr_string(directory).ok()?.to_string_lossy().ok()?);
        }
        push(&mut path, &self.unit.attr_string(entry.path_name()).ok()?.to_string_lossy().ok()?);
        Some(path)
    }
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
