//! Checks that the modules of a crate do not use each other in a cycle.
//!
//! Sibling modules (those of a crate's root, those of one folder) must have an order: each uses only those before it.
//! A module stands for everything below it. Uses between a folder's own `mod.rs` and its files are not checked: they
//! belong together.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{Failure, Outcome, workspace};
use source::Source;

/// Known cycles: the crate's folder and the modules. Never to be added to.
const STANDING: &[(&str, &[&str])] = &[];

/// A module by its path in the crate.
type ModulePath = Vec<String>;

/// Which sibling modules use each other, with a place where one names the other.
type Uses = BTreeMap<(ModulePath, ModulePath), String>;

/// Fails on cycles that are not in the list, and on those in the list that are gone.
pub(super) fn check() -> Outcome {
    let crates = workspace::root().join("crates");
    let folders = std::fs::read_dir(&crates).map_err(|error| Failure::failed(error.to_string()))?;
    let mut names: Vec<String> =
        folders.flatten().map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let mut wrong = Vec::new();
    for name in &names {
        let standing = STANDING.iter().filter(|(krate, _)| krate == name);
        let standing: Vec<&[&str]> = standing.map(|(_, modules)| *modules).collect();
        let found = cycles_in(&uses(&modules_of(&crates.join(name).join("src"))));
        wrong.extend(complaints(&found, &standing).into_iter().map(|line| format!("{name}: {line}")));
    }
    if wrong.is_empty() {
        println!("   module cycles: {} crates, {} known cycles left", names.len(), STANDING.len());
        return Ok(());
    }
    for line in &wrong {
        eprintln!("   {line}");
    }
    Err(Failure::failed("module cycles: move the code that both modules need into a third one"))
}

/// Parses each module from the files under `src`.
fn modules_of(src: &Path) -> BTreeMap<ModulePath, Source> {
    let mut files = Vec::new();
    list_files(src, &mut files);
    let mut modules: BTreeMap<ModulePath, Source> = BTreeMap::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let relative = file.strip_prefix(src).unwrap_or(&file).with_extension("");
        let mut path: ModulePath = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            path.pop();
        }
        let source = Source::read(&text);
        let known = modules.entry(path).or_default();
        known.paths.extend(source.paths);
        known.test_modules.extend(source.test_modules);
    }
    without_tests(modules)
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn without_tests(mut modules: BTreeMap<ModulePath, Source>) -> BTreeMap<ModulePath, Source> {
    let tests: BTreeSet<ModulePath> = modules
        .iter()
        .flat_map(|(path, source)| {
            source.test_modules.iter().map(|name| [&path[..], std::slice::from_ref(name)].concat())
        })
        .collect();
    modules.retain(|path, _| !(1..=path.len()).any(|length| tests.contains(&path[..length])));
    modules
}

/// Returns which sibling modules use each other.
fn uses(modules: &BTreeMap<ModulePath, Source>) -> Uses {
    let mut uses = Uses::new();
    for (user, source) in modules {
        for named in &source.paths {
            let inside = [&user[..], &named.inside].concat();
            let Some(used) = resolve(&inside, &named.path, modules) else { continue };
            let shared = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if shared < user.len() && shared < used.len() {
                let beside = (user[..=shared].to_vec(), used[..=shared].to_vec());
                let place = || format!("{} names {}", user.join("::"), named.path.join("::"));
                uses.entry(beside).or_insert_with(place);
            }
        }
    }
    uses
}

/// Returns the module that `path` leads to, as seen from the module `from`.
fn resolve(from: &[String], path: &[String], modules: &BTreeMap<ModulePath, Source>) -> Option<ModulePath> {
    let mut at = from.to_vec();
    let mut parts = path.iter();
    for part in parts.by_ref() {
        match part.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            _ => {
                at.push(part.clone());
                break;
            }
        }
    }
    at.extend(parts.cloned());
    // The rest of the path, after the modules, names their items.
    while !at.is_empty() && !modules.contains_key(&at) {
        at.pop();
    }
    Some(at)
}

/// Returns the groups of sibling modules in which each one uses every other, directly or indirectly.
fn cycles_in(uses: &Uses) -> Vec<Cycle> {
    let modules: BTreeSet<&ModulePath> = uses.keys().map(|(user, _)| user).collect();
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        modules.iter().map(|&module| (module, reachable(module, uses))).collect();
    let group = |module: &&ModulePath| -> Vec<ModulePath> {
        let members = reach[*module]
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(*module)));
        members.map(|member| (*member).clone()).collect()
    };
    let groups: BTreeSet<Vec<ModulePath>> =
        modules.iter().map(group).filter(|group| !group.is_empty()).collect();
    groups.into_iter().map(|members| Cycle::new(&members, uses)).collect()
}

fn reachable<'a>(from: &'a ModulePath, uses: &'a Uses) -> BTreeSet<&'a ModulePath> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let used = uses.keys().filter(|(user, _)| user == module).map(|(_, used)| used);
        open.extend(used.filter(|used| found.insert(*used)));
    }
    found
}

/// Modules that use each other.
#[derive(Debug)]
struct Cycle {
    modules: Vec<String>,
    places: Vec<String>,
}

impl Cycle {
    fn new(members: &[ModulePath], uses: &Uses) -> Self {
        let is_inside =
            |(user, used): &(ModulePath, ModulePath)| members.contains(user) && members.contains(used);
        let places = uses.iter().filter(|(beside, _)| is_inside(beside)).map(|(_, place)| place.clone());
        Self { modules: members.iter().map(|member| member.join("::")).collect(), places: places.collect() }
    }
}

fn complaints(found: &[Cycle], standing: &[&[&str]]) -> Vec<String> {
    let new = found.iter().filter(|cycle| !standing.iter().any(|known| cycle.modules == *known));
    let new = new.map(|cycle| format!("{} ({})", cycle.modules.join(" ↔ "), cycle.places.join("; ")));
    let gone = standing.iter().filter(|known| !found.iter().any(|cycle| cycle.modules == **known));
    let gone = gone.map(|known| {
        format!(
            "{} is no longer a cycle: remove it from the list in xtask/src/check/cycles.rs",
            known.join(" ↔ ")
        )
    });
    new.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Cycle> {
        let module = |&(path, text): &(&str, &str)| {
            (
                path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(),
                Source::read(text),
            )
        };
        cycles_in(&uses(&without_tests(files.iter().map(module).collect())))
    }

    #[test]
    fn a_cycle_is_found_at_the_root_and_in_a_folder() {
        let planted = [
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use crate::b::B;"),
            ("b", "fn f() { super::c::run() }"),
            ("c", "use super::{a::A, d};"),
            ("d", "use crate::e;"),
            ("e", "mod x; mod y; use crate::f;"),
            ("e::x", "use super::y::Y;"),
            ("e::y", "use crate::e::x;"),
            ("f", ""),
        ];
        let cycles = found(&planted);
        let modules: Vec<&[String]> = cycles.iter().map(|cycle| &cycle.modules[..]).collect();
        assert_eq!(modules, [&["a", "b", "c"][..], &["e::x", "e::y"]]);
        assert_eq!(cycles[1].places, ["e::x names super::y::Y", "e::y names crate::e::x"]);
    }

    #[test]
    fn an_order_is_no_cycle_nor_are_documents_tests_and_a_folder_with_its_files() {
        let ordered = [
            ("", "use a::A; mod b; #[cfg(test)] mod checks;"),
            ("a", "//! Used by [`crate::b`].\nmod x; use x::X; use super::Root;"),
            ("a::x", "use super::Item; use crate::a;"),
            ("b", "use crate::a; #[cfg(test)] mod tests { use crate::c; }"),
            ("c", "use crate::b;"),
            ("checks", "use crate::a;"),
        ];
        assert!(found(&ordered).is_empty());
    }

    #[test]
    fn the_list_names_what_stands_and_nothing_else() {
        let cycles = found(&[("a", "use crate::b;"), ("b", "use crate::a;")]);
        assert!(complaints(&cycles, &[&["a", "b"]]).is_empty());
        assert_eq!(complaints(&cycles, &[]), ["a ↔ b (a names crate::b; b names crate::a)"]);
        let gone = complaints(&[], &[&["a", "b"]]);
        assert!(gone[0].starts_with("a ↔ b is no longer a cycle"), "{gone:?}");
    }
}
