//! The data of the page: pictures and tables as columns of JSON.

use std::ops::Deref;

use flamelet_profile::Profile;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::functions::FunctionRow;
use crate::flame::Boxes;
use crate::flame::{FlameTree, hue_of, name_key};
use crate::stacks::{Frames, NameId, Value};

/// The names that a picture or table uses, each once, with crate and hue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NameColumns {
    names: Vec<String>,
    /// The step of a zoom path that leads to a box of this name.
    keys: Vec<u32>,
    /// The row of `crates`.
    krate: Vec<u32>,
    crates: Vec<String>,
    hues: Vec<u32>,
    /// The row of `files`, -1 when unknown.
    file: Vec<i32>,
    files: Vec<String>,
}

/// Collects [`NameColumns`].
pub(super) struct NameIndex<'a> {
    profile: &'a Profile,
    frames: &'a Frames,
    rows: FxHashMap<NameId, u32>,
    crates: FxHashMap<String, u32>,
    files: FxHashMap<&'a str, i32>,
    pub(super) columns: NameColumns,
}

impl<'a> NameIndex<'a> {
    pub(super) fn new(profile: &'a Profile, frames: &'a Frames) -> Self {
        let (rows, crates, files) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { profile, frames, rows, crates, files, columns: NameColumns::default() }
    }

    pub(super) fn row(&mut self, name: NameId) -> u32 {
        if let Some(&row) = self.rows.get(&name) {
            return row;
        }
        let text = self.frames.text(self.profile, name);
        let (krate, file) = (self.krate(name), self.file(name));
        let columns = &mut self.columns;
        columns.names.push(text.to_owned());
        columns.keys.push(name_key(text));
        columns.krate.push(krate);
        columns.file.push(file);
        let row = (columns.names.len() - 1) as u32;
        self.rows.insert(name, row);
        row
    }

    fn krate(&mut self, name: NameId) -> u32 {
        let krate = self.frames.krate(self.profile, name);
        if let Some(&row) = self.crates.get(&krate) {
            return row;
        }
        let columns = &mut self.columns;
        columns.hues.push(hue_of(&krate));
        columns.crates.push(krate.clone());
        let row = (columns.crates.len() - 1) as u32;
        self.crates.insert(krate, row);
        row
    }

    fn file(&mut self, name: NameId) -> i32 {
        let file = self.frames.file(self.profile, name);
        if file.is_empty() {
            return -1;
        }
        let columns = &mut self.columns;
        *self.files.entry(file).or_insert_with(|| {
            columns.files.push(file.to_owned());
            (columns.files.len() - 1) as i32
        })
    }
}

/// New and base values of a diff, or signed values; absent if the weight says everything.
#[derive(Clone, Debug, Default, Serialize)]
struct Sides {
    new: Vec<i64>,
    base: Vec<i64>,
}

impl Sides {
    fn of(values: impl Iterator<Item = Value> + Clone) -> Option<Self> {
        let plain = values
            .clone()
            .all(|value| value.base == 0 && value.new >= 0 && value.new as u64 == value.weight());
        (!plain).then(|| {
            let (new, base) = values.map(|value| (value.new, value.base)).unzip();
            Self { new, base }
        })
    }
}

/// A picture: boxes after their parents, siblings from left to right without gaps, so that their positions follow
/// from their weights.
#[derive(Clone, Debug, Serialize)]
pub struct FlamePayload {
    #[serde(flatten)]
    names: NameColumns,
    zoom: usize,
    cutoff: u64,
    narrower: u64,
    diff: bool,
    /// The parent of each box, -1 for the root.
    parent: Vec<i32>,
    /// The row of `names`, -1 for the root of all stacks.
    name: Vec<i32>,
    weight: Vec<u64>,
    own: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sides: Option<Sides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    own_sides: Option<Sides>,
}

impl FlamePayload {
    /// Converts `boxes`, which were laid out from `tree`, to columns.
    pub fn new<P: Deref<Target = Profile>>(tree: &FlameTree<P>, boxes: &Boxes, diff: bool) -> Self {
        let mut index = NameIndex::new(tree.profile(), tree.frames());
        let rows = &boxes.boxes;
        Self {
            name: rows.iter().map(|row| row.name.map_or(-1, |name| index.row(name) as i32)).collect(),
            names: index.columns,
            zoom: boxes.zoom,
            cutoff: boxes.cutoff,
            narrower: boxes.narrower,
            diff,
            parent: rows.iter().map(|row| row.parent.map_or(-1, |at| at as i32)).collect(),
            weight: rows.iter().map(|row| row.value.weight()).collect(),
            own: rows.iter().map(|row| row.own.weight()).collect(),
            sides: Sides::of(rows.iter().map(|row| row.value)),
            own_sides: Sides::of(rows.iter().map(|row| row.own)),
        }
    }

    /// Returns how many boxes there are.
    pub fn box_count(&self) -> usize {
        self.parent.len()
    }
}

/// A table of functions.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionsPayload {
    #[serde(flatten)]
    names: NameColumns,
    /// How many functions there are; the table may contain only some of them.
    count: usize,
    total: u64,
    diff: bool,
    name: Vec<u32>,
    flat: Vec<u64>,
    cum: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flat_sides: Option<Sides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cum_sides: Option<Sides>,
}

impl FunctionsPayload {
    /// Converts `rows`, out of `count` in total, to columns.
    pub fn new(
        profile: &Profile,
        frames: &Frames,
        rows: &[FunctionRow],
        count: usize,
        total: Value,
        diff: bool,
    ) -> Self {
        let mut index = NameIndex::new(profile, frames);
        Self {
            name: rows.iter().map(|row| index.row(row.name)).collect(),
            names: index.columns,
            count,
            total: total.weight(),
            diff,
            flat: rows.iter().map(|row| row.flat.weight()).collect(),
            cum: rows.iter().map(|row| row.cum.weight()).collect(),
            flat_sides: Sides::of(rows.iter().map(|row| row.flat)),
            cum_sides: Sides::of(rows.iter().map(|row| row.cum)),
        }
    }
}
