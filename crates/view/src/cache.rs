//! What has been opened and worked out so far, kept for the next question.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use flamelet_report::flame::{Direction, FlameTree, Viewport};
use flamelet_report::page::{FunctionRow, functions};
use flamelet_report::profile::Profile;
use flamelet_report::stacks::{Frames, StackWeights};

use crate::Error;
use crate::lock::lock;
use crate::query::{Query, ShapeKey};
use crate::shape::{difference, shape};
use crate::source::Source;
use crate::usage::Usage;

/// How many shapes of profiles are kept at most, and how many trees of a shape.
const KEPT_SHAPES: usize = 4;
const KEPT_TREES: usize = 8;
/// Of large profiles fewer, so that all shapes, and all trees of one, have about so many stacks: each takes some 60 bytes
/// in a tree. Two stay, to go back and forth between.
const KEPT_STACKS: usize = 600_000;
const KEPT_ALWAYS: usize = 2;
/// How wide a page is before it says so.
const COMMON_WIDTH: f64 = 1600.0;

/// A value that is made once, however many ask for it at the same moment.
type Slot<V> = Arc<Mutex<Option<V>>>;

/// The few values that were used last, by key.
pub(crate) struct Recent<K, V> {
    kept: Mutex<Vec<(K, Slot<V>)>>,
    room: usize,
}

impl<K: Eq + Clone, V: Clone> Recent<K, V> {
    fn new(room: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), room }
    }

    /// The value for `key`, made if it is not kept. Who asks for what is being made waits for it.
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

    /// Lets go of all but the last `room` values; whether there were more.
    fn keep(&self, room: usize) -> bool {
        let mut kept = lock(&self.kept);
        let over = kept.len().saturating_sub(room);
        kept.drain(..over);
        over > 0
    }

    /// How many there are.
    fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    /// Those that are made.
    fn values(&self) -> Vec<V> {
        let slots: Vec<Slot<V>> = lock(&self.kept).iter().map(|(_, slot)| Arc::clone(slot)).collect();
        // What is being made is locked, and counts when it is there.
        slots.iter().filter_map(|slot| slot.try_lock().ok()?.clone()).collect()
    }
}

type Tree = Arc<Mutex<FlameTree<Arc<Profile>>>>;

/// A profile as the chips left it.
pub(crate) struct Shaped {
    pub(crate) profile: Arc<Profile>,
    pub(crate) frames: Arc<Frames>,
    pub(crate) notes: Vec<String>,
    weighed: Mutex<HashMap<usize, Arc<Weighed>>>,
    /// By sample type, direction, and the function in the middle.
    trees: Recent<(usize, bool, String), Tree>,
}

/// The same for one sample type.
pub(crate) struct Weighed {
    pub(crate) sample_type: usize,
    pub(crate) weights: StackWeights,
    functions: OnceLock<Vec<FunctionRow>>,
}

impl Weighed {
    fn byte_size(&self) -> usize {
        self.weights.byte_size() + self.functions.get().map_or(0, |rows| size_of_val(&**rows))
    }
}

/// Everything that was opened.
pub(crate) struct Cache {
    pub(crate) source: Source,
    pub(crate) usage: Usage,
    opened: Recent<ShapeKey, (String, Arc<Profile>)>,
    shapes: Recent<ShapeKey, Arc<Shaped>>,
}

impl Cache {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, usage: Usage::default(), opened: Recent::new(2), shapes: Recent::new(KEPT_SHAPES) }
    }

    /// The profile that a request is about, against its base if it has one; none if nothing was chosen.
    pub(crate) fn open(&self, key: &ShapeKey) -> Result<Option<(String, String, Arc<Profile>)>, Error> {
        let Some(id) = self.chosen(key) else { return Ok(None) };
        // What is opened depends on the time only where two spans are compared.
        let time = key.time.clone().filter(|_| key.base_time.is_some());
        let (base, base_time) = (key.base.clone(), key.base_time.clone());
        let wanted = ShapeKey { profile: id.clone(), base, base_time, time, ..ShapeKey::default() };
        let (name, profile) = self.opened.get(&wanted, || self.compared(&wanted))?;
        Ok(Some((id, name, profile)))
    }

    /// The id of the profile that a request is about, if any.
    fn chosen(&self, key: &ShapeKey) -> Option<String> {
        Some(key.profile.clone()).filter(|id| !id.is_empty()).or_else(|| self.source.first())
    }

    /// Opens a profile, against its base if it has one.
    fn compared(&self, wanted: &ShapeKey) -> Result<(String, Arc<Profile>), Error> {
        let (name, profile) = self.source.open(&wanted.profile)?;
        if let Some(span) = &wanted.base_time {
            let part = |span: &Range<u64>| {
                let mut part = Profile::clone(&profile);
                part.keep_time(span.clone());
                part
            };
            let new = wanted.time.as_ref().map_or_else(|| Profile::clone(&profile), part);
            return Ok((format!("{name}, two spans"), Arc::new(self.difference(&new, &part(span))?)));
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

    /// The profile that a request is about, as its chips leave it.
    pub(crate) fn shaped(&self, key: &ShapeKey) -> Result<Arc<Shaped>, Error> {
        let nothing = || Error::not_found("no profile was chosen");
        // The newest of a live service is another one each time: it is known by its own id.
        let key = &ShapeKey { profile: self.chosen(key).ok_or_else(nothing)?, ..key.clone() };
        self.shapes.get(key, || {
            let (_, _, profile) = self.open(key)?.ok_or_else(nothing)?;
            // Where two spans are compared, the time has been applied to each side already.
            let time = key.time.clone().filter(|_| key.base_time.is_none());
            let key = &ShapeKey { time, ..key.clone() };
            let is_whole = key.chips.is_empty() && key.fold.is_empty() && key.time.is_none();
            let (profile, notes) = match is_whole {
                true => (profile, Vec::new()),
                false => {
                    let (profile, notes) = shape(Profile::clone(&profile), key)?;
                    (Arc::new(profile), notes)
                }
            };
            let frames = Arc::new(Frames::new(&profile));
            let stacks = profile.stack_count();
            self.shapes.keep(room(KEPT_SHAPES, stacks));
            let trees = Recent::new(room(KEPT_TREES, stacks));
            Ok(Arc::new(Shaped { profile, frames, notes, weighed: Mutex::default(), trees }))
        })
    }

    /// About how many bytes are kept. A profile that is kept for several reasons counts once.
    pub(crate) fn memory(&self) -> usize {
        let shapes = self.shapes.values();
        let opened = self.opened.values().into_iter().map(|(_, profile)| profile);
        let shaped = shapes.iter().map(|shaped| Arc::clone(&shaped.profile));
        let profiles = self.source.shelved().into_iter().chain(opened).chain(shaped);
        let profiles: HashMap<*const Profile, usize> =
            profiles.map(|profile| (Arc::as_ptr(&profile), profile.byte_size())).collect();
        profiles.values().sum::<usize>() + shapes.iter().map(|shaped| shaped.byte_size()).sum::<usize>()
    }

    /// Lets go of what can be worked out again, from what was used longest ago on, and then of old profiles of a live
    /// service, until all that is kept takes at most `most` bytes.
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

    /// Lets go of all that can be worked out again.
    pub(crate) fn forget(&self) {
        self.shapes.keep(0);
        self.opened.keep(0);
    }

    /// Works out what the page asks for first, so that it is there when it does.
    pub(crate) fn prepare(&self) {
        let query = Query::default();
        // What goes wrong here goes wrong again, and is told, when somebody asks.
        if self.source.first().is_none() {
            return;
        }
        let Ok((shaped, weighed)) = self.weighed(&query) else { return };
        if let Ok(tree) = shaped.tree(&weighed, &query) {
            lock(&tree).layout(&Viewport::of_width(COMMON_WIDTH));
        }
    }

    /// The profile that a request is about, in the sample type that it asks for.
    pub(crate) fn weighed(&self, query: &Query) -> Result<(Arc<Shaped>, Arc<Weighed>), Error> {
        let shaped = self.shaped(&query.shape)?;
        let weighed = shaped.weighed(&query.sample_type);
        Ok((shaped, weighed))
    }
}

/// How many things are kept that have so many stacks each, up to `most`.
fn room(most: usize, stacks: usize) -> usize {
    (KEPT_STACKS / stacks.max(1)).clamp(KEPT_ALWAYS, most)
}

impl Shaped {
    /// About how many bytes it takes beside its profile.
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
            Arc::new(Weighed { sample_type, weights, functions: OnceLock::new() })
        });
        Arc::clone(made)
    }

    /// The functions of one sample type.
    pub(crate) fn functions<'a>(&self, weighed: &'a Weighed) -> &'a [FunctionRow] {
        weighed.functions.get_or_init(|| functions(&self.profile, &self.frames, &weighed.weights))
    }

    /// The tree that a request asks for.
    pub(crate) fn tree(&self, weighed: &Weighed, query: &Query) -> Result<Tree, Error> {
        self.trees.get(&(weighed.sample_type, query.is_callers, query.function.clone()), || {
            let direction = if query.is_callers { Direction::Callers } else { Direction::Callees };
            let (profile, frames) = (Arc::clone(&self.profile), Arc::clone(&self.frames));
            let tree = if query.function.is_empty() {
                FlameTree::new(profile, frames, &weighed.weights, direction)
            } else {
                let name = self.frames.find(&self.profile, &query.function).ok_or_else(|| {
                    Error::not_found(format!("no stack that is left holds {}", query.function))
                })?;
                FlameTree::around(profile, frames, &weighed.weights, direction, name)
            };
            Ok(Arc::new(Mutex::new(tree)))
        })
    }
}
