//! The data of the page: pictures and tables as columns of JSON.

use std::ops::Deref;

use flamelet_profile::Profile;
use flamelet_symbol::owner::Owner;
use rustc_hash::FxHashMap;

#[cfg(feature = "text")]
use super::changed::Changed;
use super::functions::FunctionRow;
use crate::flame::{Boxes, FlameBox, FlameTree, hue_of, name_key};
use crate::names::is_glue;
use crate::stacks::{Frames, NameId, OwnerId, Value};

/// The names that a picture or table uses, each once, with crate, owner and hue.
#[derive(Clone, Debug, Default)]
pub struct NameColumns {
    names: Vec<String>,
    /// The step of a zoom path that leads to a box of this name.
    keys: Vec<u32>,
    /// The row of `crates`.
    krate: Vec<u32>,
    crates: Vec<String>,
    hues: Vec<u32>,
    /// The row of `owners`.
    owner: Vec<u32>,
    owners: Vec<String>,
    /// One word for each of `owners`, such as `yours`.
    owner_kinds: Vec<&'static str>,
    /// The rows that are chains of frames, and not functions.
    chains: Vec<u32>,
    /// The rows of the standard library and the system that start threads: a saved page folds frames itself.
    starts: Vec<u32>,
    /// The row of `files`, -1 when unknown.
    file: Vec<i32>,
    files: Vec<String>,
}
serialize!(
    NameColumns: names, keys, krate, crates, hues, owner, owners, owner_kinds, chains, starts, file, files
);

/// Collects [`NameColumns`].
pub(super) struct NameIndex<'a> {
    profile: &'a Profile,
    frames: &'a Frames,
    rows: FxHashMap<(NameId, OwnerId), u32>,
    chains: FxHashMap<String, u32>,
    crates: FxHashMap<String, u32>,
    owners: FxHashMap<OwnerId, u32>,
    files: FxHashMap<&'a str, i32>,
    pub(super) columns: NameColumns,
}

impl<'a> NameIndex<'a> {
    pub(super) fn new(profile: &'a Profile, frames: &'a Frames) -> Self {
        let (rows, chains) = (FxHashMap::default(), FxHashMap::default());
        let (crates, owners, files) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { profile, frames, rows, chains, crates, owners, files, columns: NameColumns::default() }
    }

    pub(super) fn row(&mut self, name: NameId) -> u32 {
        self.owned_row(name, self.frames.owner_id(name))
    }

    /// Returns the row of a name whose code belongs to `owner`.
    pub(super) fn owned_row(&mut self, name: NameId, owner: OwnerId) -> u32 {
        if let Some(&row) = self.rows.get(&(name, owner)) {
            return row;
        }
        let text = self.frames.text(self.profile, name);
        let (krate, file) = (self.frames.krate(self.profile, name), self.file(name));
        let row = self.push(text.to_owned(), name_key(text), krate, owner);
        self.columns.file.push(file);
        let is_start = || is_glue(text, self.frames.file(self.profile, name));
        if matches!(self.frames.owner_at(owner), Owner::Std | Owner::System(_)) && is_start() {
            self.columns.starts.push(row);
        }
        self.rows.insert((name, owner), row);
        row
    }

    /// Returns the row of a chain of frames.
    fn chain_row(&mut self, text: String, key: u32, owner: OwnerId) -> u32 {
        if let Some(&row) = self.chains.get(&text) {
            return row;
        }
        let row = self.push(text.clone(), key, String::new(), owner);
        self.columns.file.push(-1);
        self.columns.chains.push(row);
        self.chains.insert(text, row);
        row
    }

    fn push(&mut self, text: String, key: u32, krate: String, owner: OwnerId) -> u32 {
        let hue = hue_of(self.frames.owner_at(owner), &krate);
        let (krate, owner) = (self.krate(krate), self.owner(owner));
        let columns = &mut self.columns;
        columns.names.push(text);
        columns.keys.push(key);
        columns.krate.push(krate);
        columns.hues.push(hue);
        columns.owner.push(owner);
        (columns.names.len() - 1) as u32
    }

    fn krate(&mut self, krate: String) -> u32 {
        if let Some(&row) = self.crates.get(&krate) {
            return row;
        }
        let columns = &mut self.columns;
        columns.crates.push(krate.clone());
        let row = (columns.crates.len() - 1) as u32;
        self.crates.insert(krate, row);
        row
    }

    fn owner(&mut self, owner: OwnerId) -> u32 {
        let (columns, frames) = (&mut self.columns, self.frames);
        *self.owners.entry(owner).or_insert_with(|| {
            columns.owners.push(frames.owner_at(owner).label());
            columns.owner_kinds.push(frames.owner_at(owner).kind());
            (columns.owners.len() - 1) as u32
        })
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
#[derive(Clone, Debug, Default)]
struct Sides {
    new: Vec<i64>,
    base: Vec<i64>,
}
serialize!(Sides: new, base);

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
#[derive(Clone, Debug)]
pub struct FlamePayload {
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
    sides: Option<Sides>,
    own_sides: Option<Sides>,
}
serialize!(FlamePayload: ..names; zoom, cutoff, narrower, diff, parent, name, weight, own; sides, own_sides);

impl FlamePayload {
    /// Converts `boxes`, which were laid out from `tree`, to columns.
    pub fn new<P: Deref<Target = Profile>>(tree: &FlameTree<P>, boxes: &Boxes, diff: bool) -> Self {
        let mut index = NameIndex::new(tree.profile(), tree.frames());
        let rows = &boxes.boxes;
        let mut name_of = |row: &FlameBox| match (row.chain, row.name, row.owner) {
            (Some(chain), ..) => {
                index.chain_row(tree.text(row.node).into_owned(), tree.key(row.node), chain.owner) as i32
            }
            (None, Some(name), Some(owner)) => index.owned_row(name, owner) as i32,
            _ => -1,
        };
        Self {
            name: rows.iter().map(&mut name_of).collect(),
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
#[derive(Clone, Debug)]
pub struct FunctionsPayload {
    names: NameColumns,
    /// How many functions there are; the table may contain only some of them.
    count: usize,
    total: u64,
    diff: bool,
    name: Vec<u32>,
    flat: Vec<u64>,
    cum: Vec<u64>,
    flat_sides: Option<Sides>,
    cum_sides: Option<Sides>,
    /// In a difference: whether the own cost changed by more than noise, as `flamelet diff` says.
    flat_real: Option<Vec<bool>>,
    /// The same for the cumulative cost.
    cum_real: Option<Vec<bool>>,
}
serialize!(
    FunctionsPayload: ..names; count, total, diff, name, flat, cum; flat_sides, cum_sides, flat_real,
    cum_real
);

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
            flat_real: None,
            cum_real: None,
        }
    }

    /// Adds which functions changed by more than noise.
    #[cfg(feature = "text")]
    #[must_use]
    pub fn with_changed(self, changed: &Changed) -> Self {
        let name = |&row: &u32| self.names.names[row as usize].as_str();
        let (flat, cum) = self.name.iter().map(|row| changed.of(name(row)).into()).unzip();
        Self { flat_real: Some(flat), cum_real: Some(cum), ..self }
    }
}
