//! The collectors of all tenants: each has one, with a folder, limits and counters of its own.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use flamelet_profile::{ErrorKind, Result};

use crate::block::blocks::{MARK, MAX_MARK};
use crate::clock::now;
use crate::collector::tenant::Tenant;
use crate::collector::{Collector, Refused};
use crate::lock::lock;
use crate::names::{folder_name, service_of};
use crate::options::Options;
use crate::outside::Outside;
use crate::reader::is_collected;
use crate::store::Store;
use crate::store::prefixed::Prefixed;

/// The folder with the folders of tenants.
const TENANTS: &str = "tenants";
/// The most tenants, and the part of a collector's memory that each may take for what it remembers.
const MAX_TENANTS: usize = 64;
const SHARE: usize = 32;

/// Makes what a collector needs of its caller.
type Outsides = Box<dyn Fn() -> Box<dyn Outside> + Send + Sync>;

/// A collector, once it was opened.
type Slot = Arc<Mutex<Option<Arc<Collector>>>>;

/// The collector of a folder, and those of the tenants in it, which are opened when they are needed.
pub struct Tenants {
    main: Arc<Collector>,
    /// `None` where tenants cannot be kept.
    outside: Option<Outsides>,
    /// The store that has the blocks of all; `None` if they are in the folder.
    shared: Option<Arc<dyn Store>>,
    /// By the names of their folders.
    others: Mutex<BTreeMap<String, Slot>>,
}

impl Tenants {
    /// Opens a folder. If it is to be written, the tenants that it has are opened too, so that their old profiles are
    /// removed in time.
    pub fn open(
        options: Options,
        is_read_only: bool,
        outside: impl Fn() -> Box<dyn Outside> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::open_in(None, options, is_read_only, Box::new(outside))
    }

    /// Opens a store that other collectors may use, too. What is not in it yet is in the folder of `options`.
    pub fn open_shared(
        store: Arc<dyn Store>,
        options: Options,
        is_read_only: bool,
        outside: impl Fn() -> Box<dyn Outside> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::open_in(Some(store), options, is_read_only, Box::new(outside))
    }

    fn open_in(
        shared: Option<Arc<dyn Store>>,
        options: Options,
        is_read_only: bool,
        outside: Outsides,
    ) -> Result<Self> {
        let main = Arc::new(open_one(shared.clone(), options, is_read_only, outside())?);
        let tenants = Self { main, outside: Some(outside), shared, others: Mutex::default() };
        if let (Some(outside), false) = (&tenants.outside, is_read_only) {
            // One tenant whose folder cannot be used does not keep the others from starting.
            for name in tenants.folders()? {
                if let Err(refused) = tenants.collector(&name, outside) {
                    let message = format!("tenant {name} is not available: {}", refused.message);
                    tenants.main.outside.note(&message);
                }
            }
        }
        Ok(tenants)
    }

    /// Takes a collector of profiles of no tenant, and refuses those of tenants.
    pub fn none(main: Collector) -> Self {
        Self { main: Arc::new(main), outside: None, shared: None, others: Mutex::default() }
    }

    /// Returns the collector of the folder itself, for profiles of no tenant.
    pub fn main(&self) -> &Arc<Collector> {
        &self.main
    }

    /// Returns the collector of a tenant. A folder is made only for one that sends profiles.
    pub(crate) fn of(
        &self,
        tenant: Option<&Tenant>,
        is_sending: bool,
    ) -> std::result::Result<Arc<Collector>, Refused> {
        let Some(tenant) = tenant else { return Ok(self.main.clone()) };
        let Some(outside) = &self.outside else {
            return Err(Refused::new(404, "this collector has no tenants"));
        };
        let name = tenant.folder();
        let may_create = is_sending && !self.main.is_read_only();
        if !may_create && !self.exists(&name)? {
            let message = format!("there are no profiles of tenant {:?} yet", tenant.name());
            return Err(Refused::new(404, message));
        }
        self.collector(&name, outside)
    }

    /// Looks after the folders, see [`Collector::maintain`].
    pub fn maintain(&self) {
        self.each(Collector::maintain);
    }

    /// Looks after the folders that have accepted a great deal, see [`Collector::is_due`].
    pub fn maintain_due(&self) {
        self.each(|collector| {
            if collector.is_due() {
                collector.maintain();
            }
        });
    }

    /// Asks for symbols that are missing, see [`Collector::fetch_symbols`], until there are none or `is_over` returns true.
    /// Tenants take turns: one whose profiles name many builds does not keep the others waiting for days.
    pub fn fetch_symbols(&self, is_over: &dyn Fn() -> bool) {
        let is_any = Cell::new(true);
        while is_any.take() {
            self.each(|collector| {
                if !is_over() && collector.fetch_symbols() {
                    is_any.set(true);
                }
            });
        }
    }

    /// Compares the versions of all services, see [`Collector::watch`].
    pub fn watch(&self) {
        self.each(|collector| collector.watch(now()));
    }

    /// Refuses everything from now on, and makes blocks of what was accepted.
    pub fn close(&self) {
        self.each(Collector::close);
    }

    fn each(&self, work: impl Fn(&Collector)) {
        work(&self.main);
        let slots: Vec<Slot> = lock(&self.others).values().cloned().collect();
        for slot in slots {
            let open = lock(&slot).clone();
            if let Some(collector) = open {
                work(&collector);
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.main.options.store.join(TENANTS).join(name)
    }

    /// Returns the part of the store that a tenant has, if the store is not the folder.
    fn part(&self, name: &str) -> Option<Arc<dyn Store>> {
        let shared = self.shared.clone()?;
        Some(Arc::new(Prefixed::new(shared, &format!("{TENANTS}/{}", folder_name(name)))))
    }

    /// Returns whether a tenant has sent anything.
    fn exists(&self, name: &str) -> Result<bool> {
        let Some(part) = self.part(name) else { return Ok(is_collected(&self.path(name))) };
        match part.get(MARK, MAX_MARK) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the folders of the tenants that exist, also of those whose profiles are all in the log still.
    fn folders(&self) -> Result<Vec<String>> {
        let entries =
            std::fs::read_dir(self.main.options.store.join(TENANTS)).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| self.shared.is_some() || is_collected(&entry.path()));
        let mut names: BTreeSet<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        if let Some(shared) = &self.shared {
            names.extend(shared.list(TENANTS)?.folders.iter().filter_map(|name| service_of(name)));
        }
        Ok(names.into_iter().collect())
    }

    /// Returns the collector of a folder, and opens it if it was not open. Others are not kept waiting meanwhile.
    fn collector(&self, name: &str, outside: &Outsides) -> std::result::Result<Arc<Collector>, Refused> {
        let slot = {
            let mut others = lock(&self.others);
            if others.len() >= MAX_TENANTS && !others.contains_key(name) {
                let message = format!("more than {MAX_TENANTS} tenants; run another collector for others");
                return Err(Refused::new(429, message));
            }
            others.entry(name.to_owned()).or_default().clone()
        };
        let mut open = lock(&slot);
        if let Some(collector) = &*open {
            return Ok(collector.clone());
        }
        let options = Options { store: self.path(name), share: SHARE, ..self.main.options.clone() };
        let part = self.part(name);
        match open_one(part, options, self.main.is_read_only(), outside()) {
            Ok(collector) => {
                let collector = Arc::new(collector);
                *open = Some(collector.clone());
                Ok(collector)
            }
            Err(error) => {
                // It takes no place, and those waiting for this slot try themselves.
                drop(open);
                lock(&self.others).retain(|_, other| !Arc::ptr_eq(other, &slot));
                Err(error.into())
            }
        }
    }
}

fn open_one(
    store: Option<Arc<dyn Store>>,
    options: Options,
    is_read_only: bool,
    outside: Box<dyn Outside>,
) -> Result<Collector> {
    match (store, is_read_only) {
        (None, true) => Collector::open_read_only(options, outside),
        (None, false) => Collector::open(options, outside),
        (Some(store), true) => Collector::open_store_read_only(store, options, outside),
        (Some(store), false) => Collector::open_shared(store, options, outside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::Request;

    struct Nowhere;

    impl Outside for Nowhere {
        fn note(&self, message: &str) {
            assert!(message.contains("is not available"), "unexpected: {message}");
        }
    }

    fn tenant(number: usize) -> Tenant {
        Tenant::parse(&format!("Tenant-{number}")).expect("a name")
    }

    #[test]
    fn there_are_only_so_many_and_those_that_were_there_are_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || {
            let options = Options::new(folder.path());
            Tenants::open(options, false, || Box::new(Nowhere)).expect("opened")
        };
        let tenants = open();
        assert_eq!(tenants.of(Some(&tenant(0)), false).err().map(|refused| refused.status), Some(404));
        assert!(!folder.path().join(TENANTS).exists(), "who only asks makes no folder");
        for number in 0..MAX_TENANTS {
            let collector = tenants.of(Some(&tenant(number)), true).expect("opened");
            let again = tenants.of(Some(&tenant(number)), false).expect("open");
            assert!(Arc::ptr_eq(&collector, &again) && !Arc::ptr_eq(&collector, tenants.main()));
        }
        let refused = tenants.of(Some(&tenant(MAX_TENANTS)), true).err().expect("one too many");
        assert_eq!(refused.status, 429);
        assert!(!folder.path().join(TENANTS).join(tenant(MAX_TENANTS).folder()).exists());
        tenants.close();
        drop(tenants);
        let tenants = open();
        assert_eq!(lock(&tenants.others).len(), MAX_TENANTS);
        assert!(tenants.of(Some(&tenant(1)), false).is_ok());
        assert_eq!(
            tenants.of(Some(&tenant(MAX_TENANTS)), true).err().map(|refused| refused.status),
            Some(429)
        );
    }

    #[test]
    fn a_tenant_whose_folder_is_of_something_else_keeps_no_other_from_starting() {
        let folder = tempfile::tempdir().expect("a folder");
        let open =
            || Tenants::open(Options::new(folder.path()), false, || Box::new(Nowhere)).expect("opened");
        let tenants = open();
        for number in 0..2 {
            tenants.of(Some(&tenant(number)), true).expect("opened");
        }
        tenants.close();
        drop(tenants);
        let mark = folder.path().join(TENANTS).join(tenant(0).folder()).join(MARK);
        std::fs::write(&mark, "something else").expect("written");
        let tenants = open();
        assert!(tenants.of(Some(&tenant(0)), false).is_err());
        assert!(tenants.of(Some(&tenant(1)), false).is_ok());
        assert_eq!(lock(&tenants.others).len(), 1);
    }

    /// Remembers what it is asked for.
    #[derive(Clone, Default)]
    struct Asked(Arc<Mutex<Vec<String>>>);

    impl Outside for Asked {
        fn fetch(&self, request: &Request<'_>) -> std::result::Result<Vec<u8>, String> {
            lock(&self.0).push(request.url.to_owned());
            Err(format!("{}: answered with 404 Not Found", request.url))
        }

        fn note(&self, message: &str) {
            panic!("unexpected: {message}");
        }
    }

    #[test]
    fn one_that_wants_the_symbols_of_many_builds_does_not_keep_others_waiting() {
        let (folder, asked) = (tempfile::tempdir().expect("a folder"), Asked::default());
        let mut options = Options::new(folder.path());
        options.debuginfod = vec!["http://x".to_owned()];
        let outside = asked.clone();
        let tenants = Tenants::open(options, false, move || Box::new(outside.clone())).expect("opened");
        for (tenant_number, builds) in [(0, 3), (1, 1)] {
            let collector = tenants.of(Some(&tenant(tenant_number)), true).expect("opened");
            let wanted = collector.symbols().elsewhere;
            (0..builds).for_each(|build| wanted.want(&format!("{tenant_number:04}{build:04}")));
        }
        tenants.fetch_symbols(&|| false);
        let builds = ["00000000", "00010000", "00000001", "00000002"];
        assert_eq!(*lock(&asked.0), builds.map(|build| format!("http://x/buildid/{build}/debuginfo")));
        tenants.fetch_symbols(&|| false);
        assert_eq!(lock(&asked.0).len(), builds.len(), "asked once");
    }

    #[test]
    fn the_history_of_a_service_is_not_taken_over() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("history.lock"), "").expect("written");
        let opened = Collector::open(Options::new(folder.path()), Box::new(Nowhere)).map(drop);
        let error = opened.expect_err("refused").to_string();
        assert!(error.contains("the history of a service"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn without_folders_there_are_no_tenants() {
        let folder = tempfile::tempdir().expect("a folder");
        let main = Collector::open(Options::new(folder.path()), Box::new(Nowhere)).expect("opened");
        let tenants = Tenants::none(main);
        assert!(tenants.of(None, true).is_ok());
        assert_eq!(tenants.of(Some(&tenant(0)), true).err().map(|refused| refused.status), Some(404));
        assert!(!folder.path().join(TENANTS).exists());
    }
}
