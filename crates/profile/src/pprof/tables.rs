//! Tables that are filled while a message is read, each charged to the budget as it grows.

use std::hash::BuildHasher;

use hashbrown::{HashMap, HashTable};
use rustc_hash::FxBuildHasher;

use crate::budget::hash_entry;
use crate::protobuf::FieldValue;
use crate::rows::Rows;
use crate::{Budget, Error, ErrorKind, Event, Label, LabelSetId, Result, StringId};

/// Maps the ids of the file, which may be any numbers, to rows. Files that count from 1 upwards, as all common
/// writers do, need no table at all.
pub(super) struct IdMap {
    what: &'static str,
    rows: u32,
    is_dense: bool,
    sparse: HashMap<u64, u32, FxBuildHasher>,
}

impl IdMap {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, rows: 0, is_dense: true, sparse: HashMap::default() }
    }

    pub(super) fn push(&mut self, id: u64, budget: &Budget) -> Result<()> {
        const ENTRY: usize = hash_entry(size_of::<(u64, u32)>());
        if id == 0 {
            return Err(corrupt(format!("a {} has the reserved id 0", self.what)));
        }
        let row = self.rows;
        self.rows += 1;
        if self.is_dense && id == u64::from(row) + 1 {
            return Ok(());
        }
        if self.is_dense {
            self.is_dense = false;
            budget.charge(row as usize * ENTRY)?;
            self.sparse = (0..row).map(|row| (u64::from(row) + 1, row)).collect();
        }
        budget.charge(ENTRY)?;
        match self.sparse.insert(id, row) {
            None => Ok(()),
            Some(_) => Err(corrupt(format!("two {}s have the id {id}", self.what))),
        }
    }

    #[inline]
    pub(super) fn row(&self, id: u64) -> Result<usize> {
        if self.is_dense {
            if id.wrapping_sub(1) < u64::from(self.rows) {
                return Ok((id - 1) as usize);
            }
        } else if let Some(&row) = self.sparse.get(&id) {
            return Ok(row as usize);
        }
        Err(self.missing(id))
    }

    /// Returns whether the row of every id up to `largest` is that id minus one.
    pub(super) fn counts_to(&self, largest: u64) -> bool {
        self.is_dense && largest <= u64::from(self.rows)
    }

    /// Returns the row of an optional reference; pprof writes 0 for none.
    pub(super) fn optional(&self, id: u64) -> Result<Option<usize>> {
        if id == 0 { Ok(None) } else { self.row(id).map(Some) }
    }

    #[cold]
    fn missing(&self, id: u64) -> Error {
        corrupt(format!("refers to {} {id}, which is missing", self.what))
    }
}

/// Interns the label sets of the samples.
#[derive(Default)]
pub(super) struct LabelSetReader {
    pub(super) rows: Rows<Label>,
    index: HashTable<u32>,
    /// The labels of the sample that is being read.
    pub(super) raw: Vec<Label>,
}

impl LabelSetReader {
    /// Creates a table with the empty set.
    pub(super) fn new() -> Self {
        let mut reader = Self::default();
        reader.rows.push(&[]);
        reader
    }

    /// Adds a label of the sample that is being read.
    pub(super) fn push(&mut self, label: Label, budget: &Budget) -> Result<()> {
        if self.raw.len() == self.raw.capacity() {
            budget.charge(self.raw.len().max(4) * size_of::<Label>())?;
        }
        self.raw.push(label);
        Ok(())
    }

    pub(super) fn intern(&mut self, budget: &Budget) -> Result<LabelSetId> {
        if self.raw.is_empty() {
            return Ok(LabelSetId::EMPTY);
        }
        let hash = FxBuildHasher.hash_one(&self.raw[..]);
        let (rows, raw) = (&mut self.rows, &self.raw);
        if let Some(&row) = self.index.find(hash, |&row| rows.get(row as usize) == raw) {
            return Ok(LabelSetId::from_index(row as usize));
        }
        budget.charge(size_of::<u32>() + hash_entry(size_of::<u32>()) + size_of_val(&raw[..]))?;
        row_number(rows.items.len() + raw.len())?;
        let row = rows.push(raw);
        self.index.insert_unique(hash, row as u32, |&row| FxBuildHasher.hash_one(rows.get(row as usize)));
        Ok(LabelSetId::from_index(row))
    }
}

/// Fills events column by column, whatever order the columns come in.
pub(super) struct EventReader<'a> {
    pub(super) budget: &'a Budget,
    pub(super) events: Vec<Event>,
}

impl EventReader<'_> {
    /// Sets one field of the events, starting with number `at`.
    pub(super) fn fill(
        &mut self,
        column: FieldValue<'_>,
        at: &mut usize,
        set: impl Fn(&mut Event, u64),
    ) -> Result<()> {
        let missing = (*at + column.count()).saturating_sub(self.events.len());
        self.budget.charge(missing * size_of::<Event>())?;
        column.each_uint(|value| {
            if *at == self.events.len() {
                self.events.push(Event { value: 1, ..Event::default() });
            }
            set(&mut self.events[*at], value);
            *at += 1;
            Ok(())
        })
    }
}

/// Returns the id of the string that has this number in the file.
pub(super) fn string_at(strings: &[StringId], index: u64) -> Result<StringId> {
    let found = usize::try_from(index).ok().and_then(|index| strings.get(index));
    match found {
        Some(&id) => Ok(id),
        // Writers that have no strings at all leave the table out.
        None if index == 0 => Ok(StringId::EMPTY),
        None => Err(corrupt(format!("refers to string {index} of {}", strings.len()))),
    }
}

/// Returns `rows` as a row number, which is 32 bits wide.
pub(super) fn row_number(rows: usize) -> Result<u32> {
    u32::try_from(rows).map_err(|_| {
        Error::new(ErrorKind::TooLarge, "has more than 2^32 frames, which flamelet does not support")
    })
}

pub(super) fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the profile is damaged: {what}"))
}
