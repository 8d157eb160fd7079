//! A bucket in memory, whose answers can be lost, late and wrong in the ways that those of real ones are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use flamelet_collect::{Listing, Store};
use flamelet_profile::{Error, ErrorKind, Result};

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct Bucket {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// How far its clock is ahead of the machines', in nanoseconds.
    pub(crate) ahead: AtomicI64,
    /// The paths that were there after each change.
    past: Mutex<Vec<BTreeSet<String>>>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has no effect.
    Lost,
    /// It has its effect, and the answer is lost.
    Late,
    /// It has no effect, and neither has any call after it: the collector is dead.
    DeadBefore,
    /// It has its effect, and then the collector is dead.
    DeadAfter,
}

#[derive(Default)]
struct Plan {
    /// Calls until something happens.
    countdown: Option<(u64, Option<Fault>)>,
    /// What else happens, right before.
    hook: Option<Hook>,
    is_dead: bool,
    /// Listings are as they were this many changes ago.
    staleness: usize,
    /// Called after each change.
    observer: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The bucket as one collector or reader sees it.
pub(crate) struct Client {
    bucket: Arc<Bucket>,
    plan: Mutex<Plan>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a bucket in memory")
    }
}

impl Bucket {
    pub(crate) fn client(self: &Arc<Self>) -> Arc<Client> {
        Arc::new(Client { bucket: self.clone(), plan: Mutex::default() })
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.lock().expect("no panic").keys().cloned().collect()
    }

    pub(crate) fn edit(&self, edit: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        edit(&mut self.files.lock().expect("no panic"));
    }

    fn changed(&self) {
        let paths = self.paths().into_iter().collect();
        self.past.lock().expect("no panic").push(paths);
    }
}

impl Client {
    /// Runs `hook` right before the call after the next `calls`, which then fails so.
    pub(crate) fn plan(&self, calls: u64, fault: Option<Fault>, hook: Option<Hook>) {
        let mut plan = self.lock();
        plan.countdown = Some((calls, fault));
        plan.hook = hook;
    }

    /// Returns whether the planned call has not come yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lock().countdown.is_some()
    }

    pub(crate) fn list_stale(&self, changes: usize) {
        self.lock().staleness = changes;
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Fn() + Send + Sync>) {
        self.lock().observer = Some(observer);
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no panic")
    }

    /// Makes a call, unless it is lost.
    fn call<T>(&self, call: impl FnOnce(&Bucket) -> Result<T>) -> Result<T> {
        let failed = || Err(Error::new(ErrorKind::Io, "the bucket does not answer"));
        let mut plan = self.lock();
        if plan.is_dead {
            return failed();
        }
        let (mut fault, mut hook) = (None, None);
        match plan.countdown {
            Some((0, planned)) => {
                (fault, hook) = (planned, plan.hook.take());
                plan.countdown = None;
            }
            Some((left, planned)) => plan.countdown = Some((left - 1, planned)),
            None => {}
        }
        plan.is_dead = matches!(fault, Some(Fault::DeadBefore | Fault::DeadAfter));
        drop(plan);
        if let Some(hook) = hook {
            hook();
        }
        match fault {
            None => call(&self.bucket),
            Some(Fault::Lost | Fault::DeadBefore) => failed(),
            Some(Fault::Late | Fault::DeadAfter) => call(&self.bucket).and_then(|_| failed()),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T> {
        let observer = self.lock().observer.clone();
        self.call(|bucket| {
            let changed = change(&mut bucket.files.lock().expect("no panic"));
            bucket.changed();
            if let Some(observer) = observer {
                observer();
            }
            Ok(changed)
        })
    }
}

impl Store for Client {
    fn list(&self, folder: &str) -> Result<Listing> {
        let staleness = self.lock().staleness;
        self.call(|bucket| {
            let past = bucket.past.lock().expect("no panic");
            let then = past.len().checked_sub(1 + staleness).map(|at| past[at].clone());
            let paths =
                then.filter(|_| staleness > 0).unwrap_or_else(|| bucket.paths().into_iter().collect());
            let mut listing = Listing::default();
            let files = bucket.files.lock().expect("no panic");
            for path in &paths {
                let Some(rest) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else {
                    continue;
                };
                match rest.split_once('/') {
                    Some((name, _)) if listing.folders.last().is_none_or(|last| last != name) => {
                        listing.folders.push(name.to_owned());
                    }
                    Some(_) => {}
                    None => {
                        listing.files.push(rest.to_owned());
                        listing.bytes += files.get(path).map_or(0, |bytes| bytes.len() as u64);
                    }
                }
            }
            Ok(listing)
        })
    }

    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
        self.call(|bucket| match bucket.files.lock().expect("no panic").get(path) {
            None => Err(Error::new(ErrorKind::NotFound, format!("{path}: is not there"))),
            Some(bytes) if bytes.len() as u64 > most => Err(Error::new(ErrorKind::TooLarge, "too long")),
            Some(bytes) => Ok(bytes.clone()),
        })
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.change(|files| {
            let is_new = !files.contains_key(path);
            if is_new {
                files.insert(path.to_owned(), bytes.to_vec());
            }
            is_new
        })
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.change(|files| drop(files.remove(path)))
    }

    fn time(&self) -> Result<Option<i64>> {
        self.call(|bucket| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
            Ok(Some(now + bucket.ahead.load(Ordering::SeqCst)))
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn shown(&self, path: &str) -> String {
        format!("memory://{path}")
    }
}
