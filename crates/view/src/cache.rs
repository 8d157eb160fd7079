//! Opened profiles and what was computed from them, kept for later requests.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use flamelet_report::flame::{Direction, FlameTree, Viewport};
use flamelet_report::page::{Changed, FunctionRow, Summarized, functions};
use flamelet_report::profile::Profile;
use flamelet_report::stacks::{Frames, StackWeights};
use flamelet_report::{Mine, Owners};

use crate::Error;
use crate::lock::lock;
use crate::query::{ShapeKey, ViewQuery};
use crate::shape::{difference, shape};
use crate::source::Source;
use crate::usage::ViewerUsage;

/// The maximum numbers of shaped profiles to keep, and of trees for each.
const KEPT_SHAPES: usize = 4;
const KEPT_TREES: usize = 8;
/// Fewer are kept of large profiles, so that all of them together, and all trees of one, have about this many stacks:
/// each stack takes some 60 bytes in a tree. Two are always kept, to switch back and forth.
const KEPT_STACKS: usize = 600_000;
const KEPT_ALWAYS: usize = 2;
/// The assumed width of a page that has not sent its own.
const COMMON_WIDTH: f64 = 1600.0;

/// A value that is computed once, however many requests need it at the same time.
type Slot<V> = Arc<Mutex<Option<V>>>;

/// The most recently used values, by key.
pub(crate) struct RecentlyUsed<K, V> {
    kept: Mutex<Vec<(K, Slot<V>)>>,
    room: usize,
}

impl<K: Eq + Clone, V: Clone> RecentlyUsed<K, V> {
    fn new(room: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), room }
    }

    /// Returns the value for `key`, computing it if necessary. If another request is computing it, waits for that
    /// one.
    fn get(&self, key: &K, make: impl FnOnce() -> Result<V, Error>) -> Result<V, Error> {
        let slot = self.slot(key);
        let mut made = lock(&slot);
        if let Some(value) = &*made {
            return Ok(value.clone());
        }
        match make() {
            Ok(value) => Ok(made.insert(value).clone()),
            Err(error) => {
                lock(&self.kept).retain(|(_, other)| !Arc::ptr_eq(other, &slot));
                Err(error)
            }
        }
    }

    fn slot(&self, key: &K) -> Slot<V> {
        let mut kept = lock(&self.kept);
        let known = kept.iter().position(|(known, _)| known == key);
        let found = known.map_or_else(|| (key.clone(), Slot::default()), |at| kept.remove(at));
        let slot = Arc::clone(&found.1);
        kept.push(found);
        let over = kept.len().saturating_sub(self.room);
        kept.drain(..over);
        slot
    }

    /// Drops all but the last `room` values. Returns whether there were more.
    fn keep(&self, room: usize) -> bool {
        let mut kept = lock(&self.kept);
        let over = kept.len().saturating_sub(room);
        kept.drain(..over);
        over > 0
    }

    fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    /// Returns the values that are complete.
    fn values(&self) -> Vec<V> {
        let slots: Vec<Slot<V>> = lock(&self.kept).iter().map(|(_, slot)| Arc::clone(slot)).collect();
        // A value that is being computed is locked, and does not count yet.
        slots.iter().filter_map(|slot| slot.try_lock().ok()?.clone()).collect()
    }
}

type Tree = Arc<Mutex<FlameTree<Arc<Profile>>>>;

/// A profile with all filters applied.
pub(crate) struct Shaped {
    pub(crate) profile: Arc<Profile>,
    pub(crate) frames: Arc<Frames>,
    pub(crate) notes: Vec<String>,
    weighed: Mutex<HashMap<usize, Arc<Weighed>>>,
    pub(crate) owners: Arc<Owners>,
    /// The profile with the frames that it marks to be dropped and the owners of those, once the summary was requested.
    whole: OnceLock<(Arc<Profile>, Arc<Owners>)>,
    trees: RecentlyUsed<TreeKey, Tree>,
}

/// Which tree: the sample type, the direction, the function in the middle of a sandwich, and what is folded.
type TreeKey = (usize, bool, String, bool, Vec<Vec<u32>>);

/// The weights of a shaped profile for one sample type.
pub(crate) struct Weighed {
    pub(crate) sample_type: usize,
    pub(crate) weights: StackWeights,
    functions: OnceLock<Vec<FunctionRow>>,
    changed: OnceLock<Changed>,
}

impl Weighed {
    fn byte_size(&self) -> usize {
        let functions = self.functions.get().map_or(0, |rows| size_of_val(&**rows));
        self.weights.byte_size() + functions + self.changed.get().map_or(0, Changed::byte_size)
    }
}

/// All opened profiles.
pub(crate) struct Cache {
    pub(crate) source: Source,
    pub(crate) usage: ViewerUsage,
    opened: RecentlyUsed<ShapeKey, (String, Arc<Profile>)>,
    shapes: RecentlyUsed<ShapeKey, Arc<Shaped>>,
}

impl Cache {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            usage: ViewerUsage::default(),
            opened: RecentlyUsed::new(2),
            shapes: RecentlyUsed::new(KEPT_SHAPES),
        }
    }

    /// Opens the profile that a request names, compared with its base if it has one; `None` if no profile was chosen.
    pub(crate) fn open(&self, key: &ShapeKey) -> Result<Option<(String, String, Arc<Profile>)>, Error> {
        let Some(id) = self.chosen(key) else { return Ok(None) };
        // The time range matters for opening only if two ranges are compared.
        let time = key.time.clone().filter(|_| key.base_time.is_some());
        let (base, base_time) = (key.base.clone(), key.base_time.clone());
        let wanted = ShapeKey { profile: id.clone(), base, base_time, time, ..ShapeKey::default() };
        let (name, profile) = self.opened.get(&wanted, || self.compared(&wanted))?;
        Ok(Some((id, name, profile)))
    }

    /// Returns the id of the profile that a request names, if any.
    fn chosen(&self, key: &ShapeKey) -> Option<String> {
        Some(key.profile.clone()).filter(|id| !id.is_empty()).or_else(|| self.source.first())
    }

    /// Opens a profile, compared with its base if it has one.
    fn compared(&self, wanted: &ShapeKey) -> Result<(String, Arc<Profile>), Error> {
        let (name, profile) = self.source.open(&wanted.profile)?;
        if let Some(span) = &wanted.base_time {
            let part = |span: &Range<u64>| {
                let mut part = Profile::clone(&profile);
                part.keep_time(span.clone());
                part
            };
            let new = wanted.time.as_ref().map_or_else(|| Profile::clone(&profile), part);
            return Ok((format!("{name}, two time ranges"), Arc::new(self.difference(&new, &part(span))?)));
        }
        if wanted.base.is_empty() {
            return Ok((name, profile));
        }
        let (base_name, base) = self.source.open(&wanted.base)?;
        Ok((format!("{name} against {base_name}"), Arc::new(self.difference(&profile, &base)?)))
    }

    fn difference(&self, new: &Profile, base: &Profile) -> Result<Profile, Error> {
        let difference = difference(new, base)?;
        self.source.check_size(&difference)?;
        Ok(difference)
    }

    /// Returns the profile that a request names, with its filters applied.
    pub(crate) fn shaped(&self, key: &ShapeKey) -> Result<Arc<Shaped>, Error> {
        let nothing = || Error::not_found("no profile selected");
        // The newest profile of a live service changes, so it is cached under its own id.
        let key = &ShapeKey { profile: self.chosen(key).ok_or_else(nothing)?, ..key.clone() };
        self.shapes.get(key, || {
            let (_, _, profile) = self.open(key)?.ok_or_else(nothing)?;
            let key = &limited(key);
            let (profile, mut notes) = filtered(without_dropped_frames(profile), key)?;
            let owners = Arc::new(self.owners(key, &profile, &mut notes)?);
            let frames = Arc::new(Frames::with_owners(&profile, &owners));
            let stacks = profile.stack_count();
            self.shapes.keep(room(KEPT_SHAPES, stacks));
            let trees = RecentlyUsed::new(room(KEPT_TREES, stacks));
            let (weighed, whole) = (Mutex::default(), OnceLock::new());
            Ok(Arc::new(Shaped { profile, frames, notes, weighed, owners, whole, trees }))
        })
    }

    /// Returns a shaped profile, the same with the frames that it marks to be dropped, and whose code its functions are.
    pub(crate) fn summarized(
        &self,
        key: &ShapeKey,
        shaped: &Shaped,
    ) -> Result<(Summarized, Arc<Owners>), Error> {
        let shown = Arc::clone(&shaped.profile);
        if shown.header.drop_frames.is_empty() {
            return Ok((Summarized::of(&shown), Arc::clone(&shaped.owners)));
        }
        let (whole, owners) = match shaped.whole.get() {
            Some(known) => known.clone(),
            None => {
                let opened = self.open(key)?.ok_or_else(|| Error::not_found("no profile selected"))?;
                let whole = filtered(opened.2, &limited(key))?.0;
                let owners = Arc::new(self.owners(key, &whole, &mut Vec::new())?);
                shaped.whole.get_or_init(|| (whole, owners)).clone()
            }
        };
        Ok((Summarized { shown, whole }, owners))
    }

    /// Finds out whose code the functions are: by what the page says is yours, else by what the viewer was started with.
    fn owners(&self, key: &ShapeKey, profile: &Profile, notes: &mut Vec<String>) -> Result<Owners, Error> {
        let mine = match &key.mine {
            Some(expression) => Mine::parse(std::slice::from_ref(expression)),
            None => Mine::parse(&self.source.mine),
        };
        let mine = mine.map_err(|error| Error::invalid(error.to_string()))?;
        let (owners, unmatched) = mine.owners(profile);
        let unmatched = unmatched.into_iter().filter(|text| !text.is_empty());
        notes.extend(unmatched.map(|text| format!("Yours: {text} matches no function or file")));
        Ok(owners)
    }

    /// Returns about how many bytes are kept. A profile that is kept for several reasons counts once.
    pub(crate) fn memory(&self) -> usize {
        let shapes = self.shapes.values();
        let opened = self.opened.values().into_iter().map(|(_, profile)| profile);
        let shaped = shapes.iter().flat_map(|shaped| {
            let whole = shaped.whole.get().map(|(whole, _)| Arc::clone(whole));
            whole.into_iter().chain([Arc::clone(&shaped.profile)])
        });
        let profiles = self.source.shelved().into_iter().chain(opened).chain(shaped);
        let profiles: HashMap<*const Profile, usize> =
            profiles.map(|profile| (Arc::as_ptr(&profile), profile.byte_size())).collect();
        profiles.values().sum::<usize>() + shapes.iter().map(|shaped| shaped.byte_size()).sum::<usize>()
    }

    /// Drops what can be computed again, least recently used first, and then old profiles of a live service, until
    /// everything that is kept takes at most `most` bytes.
    pub(crate) fn shrink_to(&self, most: usize) {
        while self.memory() > most {
            let newest = self.shapes.values().pop();
            let has_more = self.shapes.keep(self.shapes.len().saturating_sub(1).max(1))
                || newest
                    .is_some_and(|shaped| shaped.trees.keep(shaped.trees.len().saturating_sub(1).max(1)))
                || self.opened.keep(1)
                || self.source.keep_taken(self.source.shelved().len().saturating_sub(1).max(1))
                || self.shapes.keep(0)
                || self.opened.keep(0);
            if !has_more {
                return;
            }
        }
    }

    /// Drops everything that can be computed again.
    pub(crate) fn forget(&self) {
        self.shapes.keep(0);
        self.opened.keep(0);
    }

    /// Computes what the page requests first, so that it is ready by then.
    pub(crate) fn prepare(&self) {
        let query = ViewQuery::default();
        // An error occurs again, and is reported, when the page makes the request.
        if self.source.first().is_none() {
            return;
        }
        let Ok((shaped, weighed)) = self.weighed(&query) else { return };
        if let Ok(tree) = shaped.tree(&weighed, &query) {
            lock(&tree).layout(&Viewport::of_width(COMMON_WIDTH));
        }
    }

    /// Returns the profile that a request names, in its sample type.
    pub(crate) fn weighed(&self, query: &ViewQuery) -> Result<(Arc<Shaped>, Arc<Weighed>), Error> {
        let shaped = self.shaped(&query.shape)?;
        let weighed = shaped.weighed(&query.sample_type);
        Ok((shaped, weighed))
    }
}

/// Returns what is left to be applied to an opened profile: if two time ranges are compared, each side is already
/// limited to its own.
fn limited(key: &ShapeKey) -> ShapeKey {
    let time = key.time.clone().filter(|_| key.base_time.is_none());
    ShapeKey { time, ..key.clone() }
}

/// Applies the filters of `key`, without a copy if there are none. Returns notes for the user too.
fn filtered(profile: Arc<Profile>, key: &ShapeKey) -> Result<(Arc<Profile>, Vec<String>), Error> {
    if key.chips.is_empty() && key.fold.is_empty() && key.time.is_none() {
        return Ok((profile, Vec::new()));
    }
    let (profile, notes) = shape(Profile::clone(&profile), key)?;
    Ok((Arc::new(profile), notes))
}

/// Drops the frames that the profile itself marks to be dropped, such as the allocator's own.
fn without_dropped_frames(profile: Arc<Profile>) -> Arc<Profile> {
    if profile.header.drop_frames.is_empty() {
        return profile;
    }
    let mut shown = Profile::clone(&profile);
    // An invalid pattern drops nothing.
    let _ = shown.drop_uninteresting();
    Arc::new(shown)
}

/// Returns how many items of this many stacks each to keep, up to `most`.
fn room(most: usize, stacks: usize) -> usize {
    (KEPT_STACKS / stacks.max(1)).clamp(KEPT_ALWAYS, most)
}

impl Shaped {
    /// Returns about how many bytes it takes besides its profile.
    fn byte_size(&self) -> usize {
        let weighed = lock(&self.weighed).values().map(|weighed| weighed.byte_size()).sum::<usize>();
        let trees = self.trees.values().iter().map(|tree| lock(tree).byte_size()).sum::<usize>();
        self.frames.byte_size() + weighed + trees
    }

    fn weighed(&self, kind: &str) -> Arc<Weighed> {
        let types = self.profile.sample_types();
        let named = types.iter().position(|value| self.profile.string(value.kind) == kind);
        let sample_type = named.unwrap_or_else(|| self.profile.default_sample_index());
        let mut weighed = lock(&self.weighed);
        let made = weighed.entry(sample_type).or_insert_with(|| {
            let weights = StackWeights::new(&self.profile, sample_type);
            Arc::new(Weighed { sample_type, weights, functions: OnceLock::new(), changed: OnceLock::new() })
        });
        Arc::clone(made)
    }

    /// Returns the functions of one sample type.
    pub(crate) fn functions<'a>(&self, weighed: &'a Weighed) -> &'a [FunctionRow] {
        weighed.functions.get_or_init(|| functions(&self.profile, &self.frames, &weighed.weights))
    }

    /// Returns which functions changed by more than noise, if this is a difference.
    pub(crate) fn changed<'a>(&self, weighed: &'a Weighed) -> Option<&'a Changed> {
        let compare = || Changed::between_sides(&self.profile, &self.owners, weighed.sample_type);
        weighed.weights.is_diff().then(|| weighed.changed.get_or_init(compare))
    }

    /// Returns the tree for a request.
    pub(crate) fn tree(&self, weighed: &Weighed, query: &ViewQuery) -> Result<Tree, Error> {
        let (function, opened) = (query.function.clone(), query.opened.clone());
        let key = (weighed.sample_type, query.is_callers, function, query.is_unfolded, opened);
        self.trees.get(&key, || {
            let direction = if query.is_callers { Direction::Callers } else { Direction::Callees };
            let (profile, frames) = (Arc::clone(&self.profile), Arc::clone(&self.frames));
            let tree = if query.function.is_empty() {
                FlameTree::new(profile, frames, &weighed.weights, direction, &query.folding())
            } else {
                let name = self.frames.find(&self.profile, &query.function).ok_or_else(|| {
                    Error::not_found(format!("no stack matches the filters and has {}", query.function))
                })?;
                FlameTree::around(profile, frames, &weighed.weights, direction, &query.folding(), name)
            };
            Ok(Arc::new(Mutex::new(tree)))
        })
    }
}
