//! What a viewer shows: one profile, a folder of them, or a live service.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flamelet_report::profile::{HeapView, Profile};
use serde::Serialize;

use crate::Error;
use crate::cancel::CancelToken;
use crate::code::CodeOptions;
use crate::folder;
use crate::lock::lock;
use crate::past::{Course, LabelValues, Past, RangeId};
use crate::requests::Requests;
use crate::taken::Taken;

/// The heap profiles that can be taken of a live service, in the order in which the page offers them.
pub(crate) const LIVE_HEAP: [HeapView; 5] =
    [HeapView::InUse, HeapView::Lifetime, HeapView::Growth, HeapView::Freed, HeapView::Peak];

/// A profile of waiting that can be taken of a live service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Where threads wait for locks and each other.
    Block,
    /// Who holds the locks that others wait for.
    Mutex,
    /// Where tasks await.
    Await,
    /// Which tasks hold up the executor.
    Blocked,
    /// Where all threads are, over some time.
    Wall,
}

impl WaitKind {
    /// All kinds, in the order in which the page offers them.
    pub const ALL: [Self; 5] = [Self::Await, Self::Block, Self::Mutex, Self::Blocked, Self::Wall];

    /// Returns the name of the endpoint.
    pub fn endpoint(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Mutex => "mutex",
            Self::Await => "await",
            Self::Blocked => "blocked",
            Self::Wall => "wall",
        }
    }
}

/// What the page wants of a live service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LiveView {
    #[default]
    Cpu,
    Heap(HeapView),
    Wait(WaitKind),
}

/// Takes profiles of a live service. The viewer has no HTTP client; its caller provides one.
pub trait Take: Send + Sync {
    /// Takes a CPU profile of this many seconds, unless it is cancelled first.
    fn take(&self, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error>;

    /// Returns whether heap profiles can be taken.
    fn has_heap(&self) -> bool {
        false
    }

    /// Takes a heap profile; growth is watched for this many seconds, unless it is cancelled first.
    fn take_heap(&self, view: HeapView, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let _ = (view, seconds, cancel);
        Err(Error::unreadable("this service has no heap profiles"))
    }

    /// Returns whether the service counts requests, and has profiles of waiting.
    fn has_requests(&self) -> bool {
        false
    }

    /// Returns what the service answers at `/debug/pprof/requests`.
    fn requests(&self) -> Result<String, Error> {
        Err(Error::unreadable("this service does not count requests"))
    }

    /// Takes a profile of waiting, since the start of the service; the wall clock is watched for this many seconds, unless it is
    /// cancelled first.
    fn take_wait(&self, kind: WaitKind, seconds: u32, cancel: &CancelToken) -> Result<Taken, Error> {
        let _ = (kind, seconds, cancel);
        Err(Error::unreadable("this service has no profiles of waiting"))
    }
}

/// How many profiles of a live service are kept, and about how many bytes of them: a viewer may be part of the
/// service itself. Older ones are dropped; two are always kept, to be compared.
const KEPT_TAKEN: usize = 24;
const KEPT_BYTES: usize = 256 << 20;
const KEPT_ALWAYS: usize = 2;

/// A profile in memory. Ids count up from 0 and are never reused; those of ranges of the past say which.
struct Shelved {
    id: String,
    name: String,
    profile: Arc<Profile>,
}

impl Shelved {
    fn entry(&self) -> ProfileEntry {
        let profile = &self.profile;
        let kind = profile.sample_types().get(profile.default_sample_index());
        ProfileEntry {
            id: self.id.clone(),
            name: self.name.clone(),
            detail: String::new(),
            kind: kind.map_or_else(String::new, |value| profile.string(value.kind).to_owned()),
            service: String::new(),
            written_millis: 0,
        }
    }
}

type OpenFile = Box<dyn Fn(&Path) -> Result<Profile, String> + Send + Sync>;

enum Shelf {
    Folder { path: PathBuf, open: OpenFile },
    Memory(Mutex<Vec<Shelved>>),
}

/// What a viewer shows.
pub struct Source {
    shelf: Shelf,
    take: Option<Box<dyn Take>>,
    past: Option<Box<dyn Past>>,
    pub(crate) code: Option<CodeOptions>,
    /// Why no code is shown, if that is worth telling the user.
    pub(crate) no_code: &'static str,
    /// Expressions for code that is yours, unless the page has its own.
    pub(crate) mine: Vec<String>,
    /// The maximum number of bytes to keep.
    pub(crate) memory: Option<usize>,
    /// How many ids were assigned to profiles in memory.
    given: AtomicUsize,
}

/// One profile of a [`Source`], as the page lists it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProfileEntry {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) detail: String,
    /// What it measures, if that is known without opening it: profiles of the same kind can be compared.
    pub(crate) kind: String,
    /// The folder of its service, which its name begins with; empty if it is in none.
    pub(crate) service: String,
    /// When its file was written, in milliseconds since 1970; 0 if it has none.
    pub(crate) written_millis: u64,
}

impl ProfileEntry {
    fn of_file(file: &folder::FoundFile) -> Self {
        Self {
            id: file.name.clone(),
            name: file.name.clone(),
            detail: format!("{} kB", file.bytes.div_ceil(1024)),
            kind: String::new(),
            service: file.service().to_owned(),
            written_millis: file.written_millis(),
        }
    }
}

impl Source {
    /// Returns a source with one profile. A profile that is a difference (its base labelled `pprof::base`, as in
    /// pprof) is shown as one.
    pub fn profile(name: &str, profile: Profile) -> Self {
        Self::profiles(vec![(name.to_owned(), profile)])
    }

    /// Returns a source with several profiles to choose from and to compare; the last is shown first.
    pub fn profiles(profiles: Vec<(String, Profile)>) -> Self {
        let shelved = |(id, (name, profile)): (usize, (String, Profile))| Shelved {
            id: id.to_string(),
            name,
            profile: Arc::new(profile),
        };
        let profiles: Vec<Shelved> = profiles.into_iter().enumerate().map(shelved).collect();
        let given = AtomicUsize::new(profiles.len());
        let shelf = Shelf::Memory(Mutex::new(profiles));
        Self { shelf, take: None, past: None, code: None, no_code: "", mine: Vec::new(), memory: None, given }
    }

    /// Returns a source with the files of a folder and its subfolders, each read with `open` when the user chooses it.
    pub fn folder(
        path: impl Into<PathBuf>,
        open: impl Fn(&Path) -> Result<Profile, String> + Send + Sync + 'static,
    ) -> Self {
        let shelf = Shelf::Folder { path: path.into(), open: Box::new(open) };
        Self {
            shelf,
            take: None,
            past: None,
            code: None,
            no_code: "",
            mine: Vec::new(),
            memory: None,
            given: AtomicUsize::new(0),
        }
    }

    /// Returns a source for a live service: the profiles taken so far, and `take` for more.
    pub fn live(taken: Vec<Taken>, take: impl Take + 'static) -> Self {
        let taken = taken.into_iter().map(|taken| (taken.name, taken.profile)).collect();
        Self { take: Some(Box::new(take)), ..Self::profiles(taken) }
    }

    /// Lets the page show source files and instructions of this machine. Off by default, and
    /// [`Server`](crate::Server) turns it off if other machines can reach it, unless
    /// [`ServeOptions::code_beyond_loopback`](crate::ServeOptions::code_beyond_loopback) is set.
    #[must_use]
    pub fn with_code(self, code: CodeOptions) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Lets the page choose time ranges of a service's past.
    #[must_use]
    pub fn with_past(self, past: Box<dyn Past>) -> Self {
        Self { past: Some(past), ..self }
    }

    /// Counts functions whose name or file matches one of these expressions as yours, unless the page says otherwise.
    #[must_use]
    pub fn with_mine(self, mine: Vec<String>) -> Self {
        Self { mine, ..self }
    }

    /// Limits the profiles and what is computed from them to about this many bytes, for a viewer inside a service. A
    /// single profile may take a quarter of it: what is computed takes about as much as the profile, and so does a
    /// filtered part of it, or a second profile. Larger ones are refused.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Refuses a profile that leaves no room for what is computed from it.
    pub(crate) fn check_size(&self, profile: &Profile) -> Result<(), Error> {
        let (size, most) = (profile.byte_size(), self.memory.map_or(usize::MAX, |bytes| bytes / 4));
        if size <= most {
            return Ok(());
        }
        let message = format!(
            "the profile takes {} KiB, but this viewer may keep only {} KiB per profile: take a shorter one, download it, or \
             give the viewer more memory",
            size.div_ceil(1024),
            most / 1024
        );
        Err(Error::unreadable(message))
    }

    /// Returns the profiles in memory.
    pub(crate) fn shelved(&self) -> Vec<Arc<Profile>> {
        match &self.shelf {
            Shelf::Folder { .. } => Vec::new(),
            Shelf::Memory(profiles) => lock(profiles).iter().map(|it| Arc::clone(&it.profile)).collect(),
        }
    }

    pub(crate) fn has_past(&self) -> bool {
        self.past.is_some()
    }

    /// Returns the services whose past can be shown; none if there is only one.
    pub(crate) fn services(&self) -> Result<Vec<String>, Error> {
        self.past.as_ref().map_or(Ok(Vec::new()), |past| past.services())
    }

    /// Calls `read` with the past of a service; without a name, with the one that is shown first.
    fn with_past_of<T>(
        &self,
        service: &str,
        read: impl FnOnce(&dyn Past) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let past = self.past.as_deref().ok_or_else(no_past)?;
        if service.is_empty() {
            return read(past);
        }
        let own = past.of_service(service);
        read(&*own.ok_or_else(|| Error::not_found(format!("there is no service {service:?}")))?)
    }

    /// Returns how much CPU time was used over the past.
    pub(crate) fn course(&self, service: &str, parts: usize) -> Result<Course, Error> {
        self.with_past_of(service, |past| past.course(parts))
    }

    /// Returns the labels that can be selected in the past of a service.
    pub(crate) fn labels(&self, service: &str) -> Result<Vec<LabelValues>, Error> {
        self.with_past_of(service, |past| past.labels())
    }

    /// Adds a range of the past to the profiles in memory, unless it is there.
    pub(crate) fn add_range(&self, range: &RangeId) -> Result<ProfileEntry, Error> {
        let id = range.to_string();
        if let Some(known) = self.look_at(&id, Shelved::entry) {
            return Ok(known);
        }
        let read = |past: &dyn Past| past.selected(range.from, range.to, &range.select);
        let taken = self.with_past_of(&range.service, read)?;
        self.shelve(taken, Some(id))
    }

    /// Looks at a profile in memory.
    fn look_at<T>(&self, id: &str, look: impl FnOnce(&Shelved) -> T) -> Option<T> {
        let Shelf::Memory(profiles) = &self.shelf else { return None };
        lock(profiles).iter().find(|shelved| shelved.id == id).map(look)
    }

    /// Drops the oldest profiles of a live service until this many are left. Returns whether there were more.
    pub(crate) fn keep_taken(&self, most: usize) -> bool {
        let grows = self.is_live() || self.has_past();
        let (Shelf::Memory(profiles), true) = (&self.shelf, grows) else { return false };
        let mut profiles = lock(profiles);
        let over = profiles.len().saturating_sub(most);
        profiles.drain(..over);
        over > 0
    }

    /// Shows no code, and gives this reason.
    pub(crate) fn without_code(self, why: &'static str) -> Self {
        let no_code = if self.code.is_some() { why } else { self.no_code };
        Self { code: None, no_code, ..self }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.take.is_some()
    }

    /// Returns whether there is no profile to choose from yet.
    pub fn is_empty(&self) -> bool {
        self.entries().is_ok_and(|entries| entries.is_empty())
    }

    /// Returns the profiles to choose from.
    pub(crate) fn entries(&self) -> Result<Vec<ProfileEntry>, Error> {
        match &self.shelf {
            Shelf::Folder { path, .. } => {
                Ok(folder::files(path)?.iter().map(ProfileEntry::of_file).collect())
            }
            Shelf::Memory(profiles) => Ok(lock(profiles).iter().map(Shelved::entry).collect()),
        }
    }

    /// Returns the id of the profile to show if none was chosen: the last one in memory, none of a folder.
    pub(crate) fn first(&self) -> Option<String> {
        match &self.shelf {
            Shelf::Folder { .. } => None,
            Shelf::Memory(profiles) => lock(profiles).last().map(|shelved| shelved.id.clone()),
        }
    }

    /// Opens a profile by an id from [`Source::entries`].
    pub(crate) fn open(&self, id: &str) -> Result<(String, Arc<Profile>), Error> {
        let missing = || Error::not_found("this profile is no longer available; choose another one");
        match &self.shelf {
            Shelf::Folder { path, open } => {
                // The id is looked up in the folder's listing: no part of a request becomes a path.
                let found = folder::files(path)?.into_iter().find(|file| file.name == id);
                let file = found.ok_or_else(missing)?;
                let profile = open(&file.path).map_err(Error::unreadable)?;
                Ok((file.name, Arc::new(profile)))
            }
            Shelf::Memory(_) => {
                let look = |found: &Shelved| (found.name.clone(), Arc::clone(&found.profile));
                // A range of the past may come from a link, or have been dropped to make room.
                if let (None, Some(range), Some(_)) =
                    (self.look_at(id, |_| ()), RangeId::parse(id), &self.past)
                {
                    self.add_range(&range)?;
                }
                self.look_at(id, look).ok_or_else(missing)
            }
        }
    }

    /// Returns whether heap profiles can be taken of the live service.
    pub(crate) fn has_live_heap(&self) -> bool {
        self.take.as_ref().is_some_and(|take| take.has_heap())
    }

    /// Returns whether the live service counts requests.
    pub(crate) fn has_requests(&self) -> bool {
        self.take.as_ref().is_some_and(|take| take.has_requests())
    }

    /// Returns what the live service says about its requests.
    pub(crate) fn requests(&self) -> Result<Requests, Error> {
        let take = self.take.as_ref().filter(|take| take.has_requests());
        let take = take.ok_or_else(|| Error::not_found("requests are counted by a live service only"))?;
        Requests::parse(take.requests()?.as_bytes())
    }

    /// Returns how many profiles were dropped to make room.
    pub(crate) fn let_go(&self) -> usize {
        match &self.shelf {
            Shelf::Folder { .. } => 0,
            Shelf::Memory(profiles) => {
                let left = lock(profiles).len();
                self.given.load(Ordering::Relaxed).saturating_sub(left)
            }
        }
    }

    /// Takes a profile of the live service and adds it to those in memory.
    pub(crate) fn take(
        &self,
        wanted: LiveView,
        seconds: u32,
        cancel: &CancelToken,
    ) -> Result<ProfileEntry, Error> {
        let no_service = || Error::invalid("cannot take a profile: this is not a live service");
        let take = self.take.as_ref().ok_or_else(no_service)?;
        let taken = match wanted {
            LiveView::Cpu => take.take(seconds, cancel),
            LiveView::Heap(view) => take.take_heap(view, seconds, cancel),
            LiveView::Wait(kind) => take.take_wait(kind, seconds, cancel),
        }?;
        self.shelve(taken, None)
    }

    /// Adds a profile to those in memory, with an id of its own or the next number.
    fn shelve(&self, taken: Taken, id: Option<String>) -> Result<ProfileEntry, Error> {
        let Shelf::Memory(profiles) = &self.shelf else {
            return Err(Error::invalid("no profile can be taken here: the viewer shows a folder of files"));
        };
        let profile = taken.profile;
        self.check_size(&profile)?;
        let mut profiles = lock(profiles);
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let id = id.unwrap_or_else(|| number.to_string());
        // Another request may have read the same range meanwhile.
        profiles.retain(|shelved| shelved.id != id);
        let shelved = Shelved { id, name: taken.name, profile: Arc::new(profile) };
        let entry = shelved.entry();
        profiles.push(shelved);
        let sizes: Vec<usize> = profiles.iter().map(|shelved| shelved.profile.byte_size()).collect();
        profiles.drain(..beyond_room(&sizes));
        Ok(entry)
    }
}

fn no_past() -> Error {
    Error::invalid("there is no history to choose a time range from")
}

/// Returns how many of the oldest profiles have to be dropped, given the sizes of all, oldest first.
fn beyond_room(sizes: &[usize]) -> usize {
    let mut bytes = 0usize;
    let newest_first = sizes.iter().rev().enumerate();
    let kept = newest_first.take_while(|&(at, size)| {
        bytes = bytes.saturating_add(*size);
        at < KEPT_ALWAYS || (at < KEPT_TAKEN && bytes <= KEPT_BYTES)
    });
    sizes.len() - kept.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_profiles_go_when_there_are_many_or_they_are_large() {
        assert_eq!(beyond_room(&[1; KEPT_TAKEN]), 0);
        assert_eq!(beyond_room(&[1; KEPT_TAKEN + 2]), 2);
        assert_eq!(beyond_room(&[KEPT_BYTES / 4; 6]), 2);
        assert_eq!(beyond_room(&[1, KEPT_BYTES, 1, 1]), 2);
        assert_eq!(beyond_room(&[usize::MAX; 3]), 1, "two can be compared, however large");
        assert_eq!(beyond_room(&[]), 0);
    }
}
