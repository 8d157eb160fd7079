//! Finds the `Cargo.lock` of the program on this machine, and notes in the profile what it says about crates, for
//! machines that do not have it.
//!
//! Only crates are noted whose owner the paths and names in the profile do not give away: crates of the workspace in a
//! binary without paths, versions of crates that are known by name only, crates vendored in a folder of any name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flamelet_profile::{KnownCrate, Profile, open_regular};
use rustc_hash::{FxHashMap, FxHashSet};

use super::crates::{CrateOwners, of_package};
use super::path::PathOwner;
use super::{Evidence, Owner, Package, binary, evidence};

/// The largest lock file that is read.
const LARGEST: u64 = 8 << 20;
/// How many folders above a file are searched.
const HIGHEST: usize = 12;
/// How many files are tried: binaries and sources.
const MOST_TRIED: usize = 64;
/// How many crates are noted.
const MOST_NOTED: usize = 2_000;

/// Notes in the profile what the lock file of its program says about crates.
pub(crate) fn note_crates(profile: &mut Profile) {
    let mappings = binary::owners(profile);
    let evidence = evidence(profile, &mappings);
    let in_profile: FxHashSet<&str> = evidence.iter().flat_map(crates_in).collect();
    if in_profile.is_empty() {
        return;
    }
    let Some(lock) = lock_of(profile, &evidence, &mappings, &in_profile) else { return };
    let derived = CrateOwners::learn(&evidence, &[]);
    let known = |krate: &&&str| {
        let owner = lock.get(**krate)?;
        (*owner != derived.of_crate(krate)).then(|| ((**krate).to_owned(), owner.clone()))
    };
    let mut known: Vec<(String, Owner)> = in_profile.iter().filter_map(|krate| known(&krate)).collect();
    known.sort_unstable();
    known.truncate(MOST_NOTED);
    let known = known.into_iter().map(|(name, owner)| {
        let version = match &owner {
            Owner::Dependency(package) | Owner::Runtime(package) => package.version.as_str(),
            _ => "",
        };
        KnownCrate {
            name: profile.intern(&name),
            version: profile.intern(version),
            is_yours: owner.is_yours(),
        }
    });
    let known: Vec<KnownCrate> = known.collect();
    known.into_iter().for_each(|known| profile.know_crate(known));
}

/// Returns the crates that a function's name and file mention.
fn crates_in<'e>(function: &'e Evidence<'_>) -> impl Iterator<Item = &'e str> {
    let by_path = match &function.by_path {
        Some(PathOwner::Package(package)) => Some(package.name.as_str()),
        _ => None,
    };
    function.krate.into_iter().chain(by_path)
}

/// Returns what the first lock file says that belongs to this program: it has a crate of the profile as its own.
fn lock_of(
    profile: &Profile,
    evidence: &[Evidence<'_>],
    mappings: &[Owner],
    in_profile: &FxHashSet<&str>,
) -> Option<FxHashMap<String, Owner>> {
    let binaries = profile.mappings().iter().zip(mappings).filter(|(_, owner)| owner.is_yours());
    let binaries = binaries.map(|(mapping, _)| profile.string(mapping.filename));
    let sources = evidence.iter().filter(|function| function.by_path == Some(PathOwner::Workspace));
    let files = binaries.chain(sources.map(|function| function.file));
    let mut seen = FxHashSet::default();
    let folders = files.filter_map(|file| Path::new(file).parent().filter(|folder| folder.is_absolute()));
    let new = folders.filter(|folder| seen.insert(folder.to_path_buf())).take(MOST_TRIED);
    let mut read: FxHashSet<PathBuf> = FxHashSet::default();
    new.into_iter().find_map(|folder| {
        let path = folder.ancestors().take(HIGHEST).map(|folder| folder.join("Cargo.lock"));
        let (path, file) =
            path.into_iter().find_map(|path| Some((path.clone(), open_regular(&path).ok()?)))?;
        if !read.insert(path) {
            return None;
        }
        let crates = crates_of(&text_of(&file)?);
        let is_ours = crates.iter().any(|(name, owner)| owner.is_yours() && in_profile.contains(&**name));
        is_ours.then_some(crates)
    })
}

fn text_of(file: &File) -> Option<String> {
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the owners of the crates in a lock file. A crate with several versions has none.
fn crates_of(text: &str) -> FxHashMap<String, Owner> {
    let mut crates: FxHashMap<String, Owner> = FxHashMap::default();
    for entry in text.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let value = |line: &'_ str| {
                Some(line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned())
            };
            entry.lines().find_map(value)
        };
        let Some(name) = field("name") else { continue };
        let name = name.replace('-', "_");
        let owner = match field("source") {
            None => Owner::Yours,
            Some(source) => {
                let version = match source.split_once('#').filter(|_| source.starts_with("git+")) {
                    Some((_, commit)) => commit.get(..7).unwrap_or(commit).to_owned(),
                    None => field("version").unwrap_or_default(),
                };
                of_package(Package { name: name.clone(), version })
            }
        };
        crates
            .entry(name.clone())
            .and_modify(|known| {
                if *known != owner && !known.is_yours() {
                    *known = of_package(Package { name, version: String::new() });
                }
            })
            .or_insert(owner);
    }
    crates
}

#[cfg(test)]
mod tests {
    use flamelet_profile::{Function, ProfileBuilder};

    use super::*;
    use crate::owner::Owners;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "shop"
version = "0.1.0"
dependencies = [
 "house-lib",
 "itoa",
]

[[package]]
name = "house-lib"
version = "0.1.0"

[[package]]
name = "itoa"
version = "1.0.18"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "00"

[[package]]
name = "syn"
version = "1.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "syn"
version = "2.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "tally"
version = "0.3.0"
source = "git+https://example.com/tally#0123456789abcdef0123456789abcdef01234567"
"#;

    #[test]
    fn a_lock_file_says_whose_crates_are() {
        let crates = crates_of(LOCK);
        let label = |name: &str| crates.get(name).map(|owner| format!("{} {}", owner.kind(), owner.label()));
        assert_eq!(label("house_lib").as_deref(), Some("yours yours"));
        assert_eq!(label("itoa").as_deref(), Some("dependency itoa 1.0.18"));
        assert_eq!(label("syn").as_deref(), Some("dependency syn"));
        assert_eq!(label("tally").as_deref(), Some("dependency tally 0123456"));
        assert_eq!(label("serde"), None);
        assert!(crates_of("[[package]]\nname = broken").is_empty());
    }

    #[test]
    fn what_the_names_do_not_say_is_noted_and_travels_with_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("Cargo.lock"), LOCK).expect("written");
        let binary = folder.path().join("target/release/shop").display().to_string();
        let names = ["shop::main", "house_lib::price", "itoa::format", "unknown_crate::f"];
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let mapping = builder.file_mapping(0x1000..0x2000, 0, &binary, "");
        for name in names {
            let (name, system_name) = (builder.string(name), builder.string(&format!("_RNv{name}")));
            let function = builder.function(Function { name, system_name, ..Function::default() });
            let line = flamelet_profile::Line { function: Some(function), ..Default::default() };
            let location = builder.location(Some(mapping), 0x1000, &[line]);
            let stack = builder.stack(&[location]);
            builder.sample(stack, Default::default(), &[1]);
        }
        let mut profile = builder.finish();
        let owners = |profile: &Profile| {
            let owners = Owners::of(profile, |_, _| false);
            let functions = (0..names.len()).map(flamelet_profile::FunctionId::from_index);
            functions.map(|function| owners.of_function(function).label()).collect::<Vec<_>>()
        };
        assert_eq!(owners(&profile), ["yours", "house_lib", "itoa", "unknown_crate"]);
        note_crates(&mut profile);
        let known: Vec<_> = profile.known_crates().iter().map(|known| profile.string(known.name)).collect();
        assert_eq!(known, ["house_lib", "itoa"], "only what cannot be derived");
        drop(folder);
        let bytes = flamelet_profile::pprof::encode(&profile);
        let read = flamelet_profile::pprof::decode(&bytes, &Default::default()).expect("decoded");
        assert_eq!(owners(&read), ["yours", "yours", "itoa 1.0.18", "unknown_crate"]);
    }
}
