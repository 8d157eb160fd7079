//! Determines whose code a function is: yours, a dependency's, the standard library's, the async runtime's, the
//! system's or the kernel's.
//!
//! The path of the source file is the best evidence; then the crate in the function's name, together with the paths
//! of other functions of that crate and what the machine that named the functions noted about it; then the binary that
//! contains the address.

mod binary;
mod crates;
mod generated;
mod lock;
mod path;

use flamelet_profile::{FunctionId, LocationId, MappingId, Profile};

use crate::rust_name::{crate_name, crate_of_symbol};
use crates::CrateOwners;
pub(crate) use lock::note_crates;
use path::PathOwner;

/// Whose code a function is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The user's own code: the workspace of a Rust program, else the main binary.
    Yours,
    /// A library that the program is built with, or the interpreter that runs it.
    Dependency(Package),
    /// The standard library of the language and what the compiler adds.
    Std,
    /// An async runtime, or the glue between futures.
    Runtime(Package),
    /// libc and other system libraries, by file name.
    System(String),
    /// The kernel.
    Kernel,
    /// There is no evidence.
    Unknown,
}

/// A library by name, with its version if known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Package {
    /// Its name in the program: `serde_json`, `github.com/gorilla/mux`.
    pub name: String,
    /// `1.0.149`, the commit of a git dependency, or empty.
    pub version: String,
}

impl Owner {
    /// Returns whether this is the user's own code.
    pub fn is_yours(&self) -> bool {
        *self == Self::Yours
    }

    /// Returns one word for the kind, which is stable in files and JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Yours => "yours",
            Self::Dependency(_) => "dependency",
            Self::Std => "std",
            Self::Runtime(_) => "runtime",
            Self::System(_) => "system",
            Self::Kernel => "kernel",
            Self::Unknown => "unknown",
        }
    }

    /// Returns a readable name: `serde_json 1.0.149`, `std`, `libc.so.6`.
    pub fn label(&self) -> String {
        match self {
            Self::Dependency(package) | Self::Runtime(package) if package.version.is_empty() => {
                package.name.clone()
            }
            Self::Dependency(package) | Self::Runtime(package) => {
                format!("{} {}", package.name, package.version)
            }
            Self::System(file) => file.clone(),
            other => other.kind().to_owned(),
        }
    }
}

/// The owners of all functions of one profile.
#[derive(Clone, Debug)]
pub struct Owners {
    functions: Vec<Owner>,
    mappings: Vec<Owner>,
}

impl Owners {
    /// Finds the owner of each function. Code for which `is_mine` (given a function's name and its file) returns true
    /// is yours, whatever else is known about it.
    pub fn of(profile: &Profile, is_mine: impl Fn(&str, &str) -> bool) -> Self {
        let mappings = binary::owners(profile);
        let evidence = evidence(profile, &mappings);
        let crates = CrateOwners::learn(&evidence, &known_crates(profile));
        let functions = evidence.iter().map(|function| match is_mine(function.name, function.file) {
            true => Owner::Yours,
            false => crates.owner(function),
        });
        let functions = functions.collect();
        Self { functions, mappings }
    }

    /// Returns the owner of a function.
    pub fn of_function(&self, function: FunctionId) -> &Owner {
        self.functions.get(function.index()).unwrap_or(&Owner::Unknown)
    }

    /// Returns the owner of an address without a name.
    pub fn of_mapping(&self, mapping: Option<MappingId>) -> &Owner {
        mapping.and_then(|mapping| self.mappings.get(mapping.index())).unwrap_or(&Owner::Unknown)
    }
}

/// What is known about one function.
struct Evidence<'p> {
    name: &'p str,
    file: &'p str,
    /// The crate in its name, for Rust.
    krate: Option<&'p str>,
    by_path: Option<PathOwner>,
    mapping: Owner,
}

/// Returns the crates that the profile itself has notes about.
fn known_crates(profile: &Profile) -> Vec<(&str, Owner)> {
    let known = profile.known_crates().iter().map(|known| {
        let (name, version) = (profile.string(known.name), profile.string(known.version));
        let package = Package { name: name.to_owned(), version: version.to_owned() };
        (name, if known.is_yours { Owner::Yours } else { crates::of_package(package) })
    });
    known.collect()
}

/// Returns whether a function is one that only Rust programs have.
fn is_start_of_rust(name: &str) -> bool {
    ["std::rt::lang_start", "core::ops::function::FnOnce::call_once", "__rust_begin_short_backtrace"]
        .iter()
        .any(|part| name.contains(part))
}

/// Returns whether a mangled name is Rust's, and not C++'s.
fn is_rust_symbol(name: &str) -> bool {
    // A suffix such as `.llvm.1234` may follow.
    let is_hashed = || {
        let hash = name.rsplit_once("17h").and_then(|(_, rest)| rest.split_at_checked(16));
        hash.is_some_and(|(hash, rest)| {
            rest.starts_with('E') && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    name.starts_with("_R") || name.starts_with("_ZN") && is_hashed()
}

/// Returns a file in the package of a Go function, as `-trimpath` would name it.
fn go_file(name: &str) -> String {
    let folder = name.rfind('/').map_or(0, |at| at + 1);
    let package = name[folder..].find('.').map_or(name, |dot| &name[..folder + dot]);
    match name.starts_with("type:") || name.starts_with("type..") {
        true => "runtime/type.go".to_owned(),
        false => format!("{package}/autogenerated.go"),
    }
}

/// Returns whether a file name is really the name of a label: a frame that groups samples by a label has no owner.
fn is_label(file: &str) -> bool {
    !file.is_empty() && !file.contains(['/', '\\', '.', ':', '<'])
}

/// Returns a binary that contains each function, for functions that have one.
fn first_mappings(profile: &Profile) -> Vec<Option<MappingId>> {
    let mut mappings = vec![None; profile.functions().len()];
    for (id, location) in profile.locations().iter().enumerate() {
        for line in profile.lines(LocationId::from_index(id)) {
            let Some(function) = line.function else { continue };
            let place = &mut mappings[function.index()];
            *place = place.or(location.mapping);
        }
    }
    mappings
}

fn evidence<'p>(profile: &'p Profile, mappings: &[Owner]) -> Vec<Evidence<'p>> {
    let is_rust_program =
        profile.functions().iter().any(|function| is_start_of_rust(profile.string(function.name)));
    let places = first_mappings(profile);
    let functions = profile.functions().iter().zip(places);
    let functions = functions.map(|(function, mapping)| {
        let (name, known) = (profile.string(function.name), profile.string(function.filename));
        let file = if known.is_empty() { generated::source_file(name).unwrap_or_default() } else { known };
        let symbol = profile.string(function.system_name);
        let krate = crate_of_symbol(symbol, name).or_else(|| crate_name(name));
        let is_rust = match symbol {
            mangled if mangled.is_empty() || mangled == name => is_rust_program || file.ends_with(".rs"),
            mangled => is_rust_symbol(mangled),
        };
        Evidence {
            name,
            file,
            krate: krate.filter(|_| is_rust && !is_label(file)),
            by_path: match name {
                // What the compiler and the C library put before a program's own `main`.
                "_start" => Some(PathOwner::Std),
                // The allocator's entry points, which a macro puts into the program.
                name if name.starts_with("__rustc::") || name.starts_with("__rust_") => Some(PathOwner::Std),
                "main" if is_rust_program && file.is_empty() => Some(PathOwner::Std),
                name if file.is_empty() && generated::is_of_runtime(name) => Some(PathOwner::Std),
                // Go writes methods that pass calls on, beside each type.
                name if file == "<autogenerated>" => path::owner(&go_file(name)),
                _ => path::owner(file).filter(|_| !is_label(file)),
            },
            mapping: mapping.map_or(Owner::Unknown, |mapping| mappings[mapping.index()].clone()),
        }
    });
    functions.collect()
}

#[cfg(test)]
mod tests;
