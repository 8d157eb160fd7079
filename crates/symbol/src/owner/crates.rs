//! Extracts the crate from a function's name, and lists known crates.

use rustc_hash::FxHashMap;

use super::path::PathOwner;
use super::{Evidence, Owner, Package};

/// Crates of the standard library and those that the compiler adds.
const STD: &[&str] = &[
    "std",
    "core",
    "alloc",
    "proc_macro",
    "test",
    "compiler_builtins",
    "std_detect",
    "panic_unwind",
    "__rustc",
];

/// Crates that run futures, or pass polls and wake-ups on.
const RUNTIMES: &[&str] = &[
    "tokio",
    "tokio_util",
    "tokio_stream",
    "mio",
    "async_std",
    "async_executor",
    "async_global_executor",
    "async_io",
    "async_task",
    "async_channel",
    "smol",
    "polling",
    "futures",
    "futures_core",
    "futures_executor",
    "futures_lite",
    "futures_util",
    "pin_project",
    "pin_project_lite",
    "glommio",
    "monoio",
    "actix_rt",
    "tower",
    "tower_layer",
    "tower_service",
];

/// Functions with C names that the compiler or std puts into a Rust program.
const STD_NAMES: &[&str] = &["__rust_", "rust_begin_unwind", "rust_eh_personality", "_Unwind_"];

/// Where flamelet stands in for functions of the C library. It is never what you look for, also not where flamelet is built
/// from a folder of the workspace.
const STAND_INS: &[&str] = &[
    "/capture/src/wait/locks/forward.rs",
    "/capture/src/wait/locks/hook.rs",
    "/capture/src/wait/locks/join.rs",
    "/flamelet/src/locks.rs",
    "/flamelet/src/threads.rs",
];

/// The owners of crates, derived from the paths of some of their functions.
pub(super) struct CrateOwners {
    by_crate: FxHashMap<String, Owner>,
    /// What the machine that named the functions noted about crates.
    known: FxHashMap<String, Owner>,
    /// Folders of packages that look like folders of the workspace, and are known to be others'.
    others: FxHashMap<String, Owner>,
    /// The packages that contain the program's `main`: they are yours, even if they were installed from a registry.
    main_packages: Vec<String>,
}

impl CrateOwners {
    pub(super) fn learn(functions: &[Evidence<'_>], notes: &[(&str, Owner)]) -> Self {
        let notes = notes.iter().map(|(name, owner)| ((*name).to_owned(), owner.clone()));
        let mut known = Self {
            by_crate: FxHashMap::default(),
            known: notes.collect(),
            others: FxHashMap::default(),
            main_packages: main_packages(functions),
        };
        known.learn_folders(functions);
        for function in functions {
            let Some(path) = &function.by_path else { continue };
            let Some(owner) = known.by_path(path) else { continue };
            let krate = match (path, function.krate) {
                (PathOwner::Package(package), _) => &package.name,
                // The implementation of a trait may be in another crate than its type, so a package is better
                // evidence.
                (PathOwner::Workspace, Some(krate)) if !known.by_crate.contains_key(krate) => krate,
                _ => continue,
            };
            known.by_crate.insert(krate.to_owned(), owner);
        }
        known
    }

    /// Learns which folders hold packages of others, from functions whose crate is known.
    fn learn_folders(&mut self, functions: &[Evidence<'_>]) {
        for function in functions.iter().filter(|it| it.by_path == Some(PathOwner::Workspace)) {
            let owner = function.krate.and_then(|krate| self.known.get(krate));
            if let (Some(owner), Some(folder)) = (owner.filter(|it| !it.is_yours()), folder_of(function.file))
            {
                self.others.insert(folder.to_owned(), owner.clone());
            }
        }
    }

    pub(super) fn owner(&self, function: &Evidence<'_>) -> Owner {
        match &function.mapping {
            Owner::Kernel => return Owner::Kernel,
            Owner::System(_) if !matches!(function.by_path, Some(PathOwner::Package(_) | PathOwner::Std)) => {
                return function.mapping.clone();
            }
            // An interpreter with debug information has paths, too: those of its own sources.
            Owner::Dependency(_) if function.by_path == Some(PathOwner::Workspace) && is_c(function.file) => {
                return function.mapping.clone();
            }
            _ => {}
        }
        if is_java_std(function.name) {
            return Owner::Std;
        }
        let in_workspace = function.by_path == Some(PathOwner::Workspace);
        if in_workspace && STAND_INS.iter().any(|file| function.file.ends_with(file)) {
            return of_package(Package { name: "flamelet".to_owned(), version: String::new() });
        }
        let folder = folder_of(function.file).filter(|_| in_workspace);
        if let Some(owner) = folder.and_then(|folder| self.others.get(folder)) {
            return owner.clone();
        }
        if let Some(owner) = function.by_path.as_ref().and_then(|path| self.by_path(path)) {
            return owner;
        }
        match (function.krate, &function.by_path) {
            (Some(krate), _) => self.of_crate(krate),
            (None, Some(PathOwner::Generated(package))) => self.of_crate(package),
            (None, _) if STD_NAMES.iter().any(|start| function.name.starts_with(start)) => Owner::Std,
            (None, _) => function.mapping.clone(),
        }
    }

    fn by_path(&self, path: &PathOwner) -> Option<Owner> {
        Some(match path {
            PathOwner::Package(package) if self.main_packages.contains(&package.name) => Owner::Yours,
            PathOwner::Package(package) => self.with_version(package.clone()),
            PathOwner::Std => Owner::Std,
            PathOwner::Workspace => Owner::Yours,
            PathOwner::Generated(_) => return None,
        })
    }

    /// Returns the owner of a package; a vendored one has its version in the notes only.
    fn with_version(&self, package: Package) -> Owner {
        let known = self.known.get(&package.name).filter(|_| package.version.is_empty());
        known.filter(|owner| !owner.is_yours()).cloned().unwrap_or_else(|| of_package(package))
    }

    pub(super) fn of_crate(&self, krate: &str) -> Owner {
        if is_std(krate) {
            return Owner::Std;
        }
        if let Some(owner) = self.known.get(krate) {
            return owner.clone();
        }
        if let Some(owner) = self.by_crate.get(krate) {
            return owner.clone();
        }
        match self.main_packages.iter().any(|package| package == krate) {
            true => Owner::Yours,
            false => of_package(Package { name: krate.to_owned(), version: String::new() }),
        }
    }
}

/// Returns the packages of functions called `CRATE::main`, or their crates if there are no paths.
fn main_packages(functions: &[Evidence<'_>]) -> Vec<String> {
    let mains = functions.iter().filter(|function| {
        function.krate.is_some_and(|krate| function.name.strip_prefix(krate) == Some("::main"))
    });
    let names = mains.map(|function| match &function.by_path {
        Some(PathOwner::Package(package)) => package.name.clone(),
        _ => function.krate.unwrap_or_default().to_owned(),
    });
    names.collect()
}

/// Returns whether a source file is in C or C++.
fn is_c(file: &str) -> bool {
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "inc", "tcc", "S", "s"].contains(&ending)
}

/// Returns the folder of the package that a source file belongs to.
fn folder_of(file: &str) -> Option<&str> {
    file.rsplit_once("/src/").map(|(folder, _)| folder)
}

pub(super) fn of_package(package: Package) -> Owner {
    match RUNTIMES.contains(&package.name.as_str()) {
        true => Owner::Runtime(package),
        false => Owner::Dependency(package),
    }
}

fn is_std(krate: &str) -> bool {
    STD.contains(&krate)
}

/// Returns whether this is a method of the JDK: `java.util.HashMap.get`, with slashes, or with the types of what it
/// returns and takes: `int java.lang.String.indexOf(int)`.
fn is_java_std(name: &str) -> bool {
    let before_types = name.split('(').next().unwrap_or_default();
    let name = before_types.rsplit(' ').next().unwrap_or_default();
    let package = name.split(['.', '/']).next().unwrap_or_default();
    name.len() > package.len() + 1 && ["java", "javax", "jdk", "sun"].contains(&package)
}
