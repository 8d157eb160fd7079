//! Which code is kept outside of blocks. The stacks of a program are mostly the same in all services that run it and in all
//! hours, and their names are nearly all of a block; so a store keeps them once for a day.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::block::{CodeStack, Part, SharedCode, SharedStacks};
use crate::names::hour_name;
use crate::series::hash_texts;

/// New stacks are kept outside of blocks if there are this many, and at least this fraction of the existing ones: fewer
/// would not be worth a file. The others are in their blocks.
const FEWEST: usize = 64;
const LEAST_GROWTH: usize = 4;
/// Files of stacks of a program and day.
const MOST_FILES: usize = 24;
/// The longest build id that is listed.
pub(crate) const MAX_BUILD_ID: usize = 128;
/// How many build ids of a file are remembered.
const MOST_BUILD_IDS: usize = 100;
/// The memory that the code of a program and day may take. Whoever reads one of its blocks has all of it in memory, and
/// whoever sends a profile says which program it is of.
const MOST_BYTES: usize = 32 << 20;
/// The memory that new stacks of all programs may take while a log becomes blocks.
const MOST_NEW_BYTES: usize = 64 << 20;
/// Stacks that are remembered. The code of further programs is in their blocks.
const MOST_REMEMBERED: usize = 500_000;
/// What a program takes besides its stacks, in stacks.
const PROGRAM_COST: usize = 16;
const HOURS_OF_DAY: i64 = 24;

#[derive(Debug)]
pub(crate) struct Programs {
    by_folder: HashMap<String, Program>,
    remembered: usize,
    most: usize,
}

/// What is kept of a program and day.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The number of the file for each stack.
    pub(crate) stacks: SharedStacks,
    /// For each file its path below the folder of shared code, and the build ids in it.
    files: Vec<(String, BTreeSet<String>)>,
    /// The memory that all of it takes.
    bytes: usize,
    /// Whether there are files whose stacks are not remembered; then no more are written.
    is_full: bool,
}

/// A file of stacks: its path, the hashes of the stacks, the build ids of their code, and the memory that it takes.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    path: String,
    stacks: Vec<u128>,
    build_ids: BTreeSet<String>,
    bytes: usize,
}

impl SharedFile {
    /// Describes a file with these stacks.
    pub(crate) fn of(path: String, new: &NewStacksOfProgram) -> Self {
        let locations = new.stacks().flat_map(|stack| &stack.locations);
        let build_ids = listed(locations.map(|(_, location)| &location.build_id));
        Self { path, stacks: new.stacks.keys().copied().collect(), build_ids, bytes: new.bytes }
    }

    /// Describes a file that was read.
    pub(crate) fn read(path: String, code: &SharedCode) -> Self {
        let build_ids = listed(code.locations().map(|location| &location.build_id));
        Self { path, stacks: code.stacks().collect(), build_ids, bytes: code.memory() }
    }
}

/// Returns the build ids of a file that are remembered. Whoever sends profiles can make up any number of them, of any length.
fn listed<'t>(ids: impl Iterator<Item = &'t String>) -> BTreeSet<String> {
    let ids: BTreeSet<_> = ids.filter(|id| (1..=MAX_BUILD_ID).contains(&id.len())).collect();
    ids.into_iter().take(MOST_BUILD_IDS).cloned().collect()
}

/// What a block refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    pub(crate) code: BTreeSet<String>,
    pub(crate) build_ids: BTreeSet<String>,
}

/// Stacks that are in no file yet, by the folders of their programs.
#[derive(Debug, Default)]
pub(crate) struct NewStacks {
    by_folder: BTreeMap<String, NewStacksOfProgram>,
    bytes: usize,
}

/// Stacks of a program that are in no file yet.
#[derive(Debug, Default)]
pub(crate) struct NewStacksOfProgram {
    stacks: BTreeMap<u128, Arc<CodeStack>>,
    locations: HashSet<u128, FxBuildHasher>,
    /// The memory that they will take where they are read.
    bytes: usize,
}

impl NewStacksOfProgram {
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &Arc<CodeStack>> + Clone {
        self.stacks.values()
    }

    /// Returns how much memory a stack would add.
    fn cost(&self, stack: &CodeStack) -> usize {
        let new = stack.locations.iter().filter(|(hash, _)| !self.locations.contains(hash));
        let locations: usize = new.map(|(_, location)| SharedCode::memory_of_location(location)).sum();
        SharedCode::memory_of_stack(stack.locations.len()) + locations
    }
}

impl NewStacks {
    /// Adds the stacks of a profile that are in no file of its program, as far as there is room for them.
    pub(crate) fn add(&mut self, folder: &str, part: &Part, programs: &Programs) {
        let known = programs.get(folder);
        let new = self.by_folder.entry(folder.to_owned()).or_default();
        let most = MOST_BYTES.saturating_sub(known.map_or(0, |known| known.bytes));
        for stack in &part.stacks {
            let is_known = known.is_some_and(|known| known.stacks.contains_key(&stack.hash));
            if is_known || new.stacks.contains_key(&stack.hash) {
                continue;
            }
            let bytes = new.cost(stack);
            if new.bytes + bytes <= most && self.bytes + bytes <= MOST_NEW_BYTES {
                new.bytes += bytes;
                self.bytes += bytes;
                new.locations.extend(stack.locations.iter().map(|(hash, _)| *hash));
                new.stacks.insert(stack.hash, stack.clone());
            }
        }
    }
}

impl Programs {
    /// Creates an empty table, one of `share` that have the memory between them.
    pub(crate) fn new(share: usize) -> Self {
        Self { by_folder: HashMap::new(), remembered: 0, most: MOST_REMEMBERED / share.max(1) }
    }

    pub(crate) fn get(&self, folder: &str) -> Option<&Program> {
        self.by_folder.get(folder)
    }

    /// Returns the stacks that are worth a file and can be remembered, with their folder.
    pub(crate) fn worth_a_file(&mut self, new: NewStacks) -> Vec<(String, NewStacksOfProgram)> {
        let wanted: usize = new.by_folder.values().map(|new| new.stacks.len()).sum();
        self.make_room(wanted, None);
        let mut room = self.most.saturating_sub(self.remembered);
        let nothing = Program::default();
        let mut is_worth = |(folder, new): &(String, NewStacksOfProgram)| {
            let known = self.get(folder).unwrap_or(&nothing);
            let fewest = FEWEST.max(known.stacks.len() / LEAST_GROWTH);
            let has_room = known.files.len() < MOST_FILES && !known.is_full && new.stacks.len() <= room;
            let is_worth = has_room && new.stacks.len() >= fewest;
            room -= if is_worth { new.stacks.len() } else { 0 };
            is_worth
        };
        new.by_folder.into_iter().filter(|one| is_worth(one)).collect()
    }

    /// Returns whether a folder was looked at, and has all files still that were found there: `names` are those that it has.
    pub(crate) fn knows(&self, folder: &str, names: &[String]) -> bool {
        let is_there = |path: &str| names.iter().any(|name| path.rsplit('/').next() == Some(name));
        self.get(folder).is_some_and(|program| program.files.iter().all(|(path, _)| is_there(path)))
    }

    /// Returns whether the program of a folder can be remembered, too.
    pub(crate) fn has_room(&mut self, folder: &str) -> bool {
        self.make_room(PROGRAM_COST, Some(folder));
        self.remembered + PROGRAM_COST <= self.most
    }

    /// Remembers which files a folder has, as far as there is room.
    pub(crate) fn add_files(&mut self, folder: &str, files: Vec<SharedFile>) {
        let count: usize = files.iter().map(|file| file.stacks.len()).sum();
        self.make_room(count + PROGRAM_COST, Some(folder));
        let has_room = self.remembered + count + PROGRAM_COST <= self.most;
        let before = self.by_folder.get(folder).map_or(0, Program::size);
        if !has_room && before == 0 && self.remembered + PROGRAM_COST > self.most {
            return;
        }
        let program = self.by_folder.entry(folder.to_owned()).or_default();
        if !has_room {
            program.is_full = true;
            self.remembered += program.size() - before;
            return;
        }
        for SharedFile { path, stacks, build_ids, bytes } in files {
            let number = program.files.len() as u32;
            program.files.push((path, build_ids));
            program.stacks.extend(stacks.into_iter().map(|hash| (hash, number)));
            program.bytes += bytes;
        }
        self.remembered += program.size() - before;
    }

    /// Forgets the programs of earlier days if this many stacks, perhaps of this folder, need the room. Those of a day
    /// stay: each would be read again for every log.
    fn make_room(&mut self, count: usize, folder: Option<&str>) {
        if self.remembered + count <= self.most {
            return;
        }
        let folders = self.by_folder.keys().map(String::as_str).chain(folder);
        let Some(latest) = folders.filter_map(day_of).max().map(str::to_owned) else { return };
        self.by_folder.retain(|folder, _| day_of(folder) == Some(&*latest));
        self.remembered = self.by_folder.values().map(Program::size).sum();
    }

    /// Forgets a folder that was removed.
    pub(crate) fn forget(&mut self, folder: &str) {
        if let Some(program) = self.by_folder.remove(folder) {
            self.remembered = self.remembered.saturating_sub(program.size());
        }
    }
}

impl Program {
    /// Returns how much of the memory for programs it takes.
    fn size(&self) -> usize {
        self.stacks.len() + PROGRAM_COST
    }

    /// Makes a program with one stack in each of these files.
    #[cfg(test)]
    pub(crate) fn of_files(files: impl Iterator<Item = (u128, String)>) -> Self {
        let mut program = Self::default();
        for ((hash, path), number) in files.zip(0..) {
            program.stacks.insert(hash, number);
            program.files.push((path, BTreeSet::new()));
        }
        program
    }

    /// Returns what a block refers to that needs the files with these numbers.
    pub(crate) fn references(&self, files: impl Iterator<Item = usize>) -> References {
        let mut references = References::default();
        for (path, build_ids) in files.filter_map(|number| self.files.get(number)) {
            references.code.insert(path.clone());
            references.build_ids.extend(build_ids.iter().cloned());
        }
        references
    }
}

/// Returns the folder of the program that a profile is of: the day, and which build is in most of its frames. Where no
/// build is known, the service stands for it.
pub(crate) fn folder_of(service: &str, hour: i64, part: &Part) -> String {
    let mut frames: HashMap<&str, usize> = HashMap::new();
    for (_, location) in part.stacks.iter().flat_map(|stack| &stack.locations) {
        *frames.entry(&location.build_id).or_default() += 1;
    }
    frames.remove("");
    let most = frames.into_iter().max_by_key(|(id, count)| (*count, *id));
    let program = most.map_or(service, |(id, _)| id);
    let hash = hash_texts([program.as_bytes()].into_iter()) as u64;
    format!("{}~{hash:016x}", day_name(hour.div_euclid(HOURS_OF_DAY)))
}

fn day_name(day: i64) -> String {
    hour_name(day.saturating_mul(HOURS_OF_DAY)).chars().take(10).collect()
}

fn day_of(folder: &str) -> Option<&str> {
    Some(folder.split_once('~')?.0)
}

/// Returns whether a folder is of the day that this hour is in.
pub(crate) fn is_of_day(folder: &str, hour: i64) -> bool {
    day_of(folder).is_some_and(|day| day == day_name(hour.div_euclid(HOURS_OF_DAY)))
}

/// Returns whether the day of a folder ends before an hour.
pub(crate) fn is_before(folder: &str, hour: i64) -> bool {
    day_of(folder).is_some_and(|day| *day < *day_name(hour.div_euclid(HOURS_OF_DAY)))
}

/// Returns whether a path in a manifest can be one of shared code, and of nothing else.
pub(crate) fn is_path(path: &str) -> bool {
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'~';
        !name.is_empty() && name.bytes().all(is_plain)
    };
    path.split_once('/').is_some_and(|(folder, name)| is_name(folder) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::CodeLocation;

    fn part(stacks: std::ops::Range<u64>, build_id: &str) -> Part {
        let stack = |number: u64| {
            let location =
                CodeLocation { build_id: build_id.to_owned(), offset: number, ..CodeLocation::default() };
            let locations = Box::new([(location.hash(), Arc::new(location))]);
            Arc::new(CodeStack { hash: u128::from(number), locations })
        };
        Part { stacks: stacks.map(stack).collect(), ..Part::default() }
    }

    fn new_stacks(folder: &str, part: &Part, programs: &Programs) -> NewStacks {
        let mut new = NewStacks::default();
        new.add(folder, part, programs);
        new
    }

    fn worth(programs: &mut Programs, part: &Part) -> usize {
        let new = new_stacks("f", part, programs);
        programs.worth_a_file(new).iter().map(|(_, new)| new.stacks.len()).sum()
    }

    /// Writes a file with what is worth one, and returns how many stacks that is.
    fn write(programs: &mut Programs, folder: &str, part: &Part) -> usize {
        let new = new_stacks(folder, part, programs);
        let worth = programs.worth_a_file(new);
        for (folder, new) in &worth {
            let number = programs.get(folder).map_or(0, |known| known.files.len());
            let path = format!("{folder}/{number}");
            programs.add_files(folder, vec![SharedFile::of(path, new)]);
        }
        worth.iter().map(|(_, new)| new.stacks.len()).sum()
    }

    #[test]
    fn stacks_are_kept_outside_of_blocks_if_there_are_enough_new_ones() {
        let mut programs = Programs::new(1);
        assert_eq!(worth(&mut programs, &part(0..63, "a")), 0);
        let first = part(0..1000, "a");
        assert_eq!(write(&mut programs, "f", &first), 1000);
        assert_eq!(worth(&mut programs, &first), 0);
        assert_eq!(worth(&mut programs, &part(900..1249, "a")), 0, "less than a fourth");
        assert_eq!(write(&mut programs, "f", &part(900..1250, "b")), 250);
        let program = programs.get("f").expect("known");
        let references = program.references([0, 1].into_iter());
        assert_eq!(references.code, ["f/0", "f/1"].map(str::to_owned).into());
        assert_eq!(references.build_ids, ["a", "b"].map(str::to_owned).into());
        assert_eq!((program.stacks[&0], program.stacks[&1249]), (0, 1));
        programs.forget("f");
        assert!(programs.get("f").is_none() && programs.remembered == 0);
    }

    #[test]
    fn programs_for_which_there_is_no_room_keep_their_code_in_their_blocks() {
        let mut programs = Programs::new(500);
        assert_eq!(programs.most, 1000);
        assert_eq!(write(&mut programs, "2026-11-15~a", &part(0..600, "a")), 600);
        assert_eq!(write(&mut programs, "2026-11-15~b", &part(0..600, "b")), 0, "no room");
        assert!(programs.get("2026-11-15~a").is_some(), "what is known stays");
        assert_eq!(write(&mut programs, "2026-11-15~c", &part(0..300, "c")), 300);
        // What an earlier start or another collector has written need not fit.
        let mut other = Programs::new(1);
        let new = new_stacks("2026-11-15~d", &part(0..5000, "d"), &other);
        let files = other.worth_a_file(new);
        programs.add_files("2026-11-15~d", vec![SharedFile::of("2026-11-15~d/0".to_owned(), &files[0].1)]);
        assert!(programs.knows("2026-11-15~d", &[]), "it is not looked at again and again");
        assert_eq!(write(&mut programs, "2026-11-15~d", &part(5000..5100, "d")), 0);
        assert_eq!(programs.remembered, 900 + 3 * PROGRAM_COST);
        // The next day, that of the day before is forgotten.
        assert_eq!(
            write(&mut programs, "2026-11-16~b", &part(0..600, "b")),
            0,
            "none of its day is known yet"
        );
        programs.add_files("2026-11-16~b", Vec::new());
        assert_eq!(write(&mut programs, "2026-11-16~b", &part(0..600, "b")), 600);
        assert_eq!((programs.by_folder.len(), programs.remembered), (1, 600 + PROGRAM_COST));
    }

    #[test]
    fn any_number_of_programs_takes_only_so_much_memory() {
        let mut programs = Programs::new(500);
        for number in 0..2000 {
            let folder = format!("2026-11-15~{number}");
            programs.add_files(&folder, Vec::new());
            let file = SharedFile { stacks: (0..5000).collect(), ..SharedFile::default() };
            programs.add_files(&folder, vec![file]);
        }
        assert_eq!(programs.by_folder.len(), programs.most / PROGRAM_COST);
        assert_eq!(programs.remembered, programs.by_folder.len() * PROGRAM_COST);
        assert!(!programs.has_room("2026-11-15~x"));
        assert!(programs.has_room("2026-11-16~x"), "on the next day, there is");
    }

    #[test]
    fn build_ids_that_somebody_makes_up_take_only_so_much_memory() {
        let (mut new, programs) = (NewStacks::default(), Programs::new(1));
        for number in 0..300 {
            let id = format!("{number:03}{}", "a".repeat(number));
            let mut part = part(0..1, &id);
            part.stacks = part.stacks.iter().map(|stack| Arc::new(renumbered(stack, number))).collect();
            new.add("f", &part, &programs);
        }
        let file = SharedFile::of("f/1".to_owned(), &new.by_folder["f"]);
        assert_eq!((file.stacks.len(), file.build_ids.len()), (300, MOST_BUILD_IDS));
        assert!(file.build_ids.iter().all(|id| id.len() <= MAX_BUILD_ID));
    }

    fn renumbered(stack: &CodeStack, number: usize) -> CodeStack {
        CodeStack { hash: number as u128, locations: stack.locations.clone() }
    }

    #[test]
    fn long_names_take_only_so_much_memory() {
        let long = |number: usize| {
            let location = CodeLocation {
                mapping: format!("{number}{}", "x".repeat(1 << 20)),
                ..CodeLocation::default()
            };
            let locations = Box::new([(location.hash(), Arc::new(location))]);
            Arc::new(CodeStack { hash: number as u128, locations })
        };
        let programs = Programs::new(1);
        let mut new = NewStacks::default();
        for program in 0..4 {
            let stacks = (0..35).map(|number| long(100 * program + number)).collect();
            let part = Part { stacks, ..Part::default() };
            new.add(&format!("2026-11-15~{program}"), &part, &programs);
        }
        let kept: Vec<usize> = new.by_folder.values().map(|new| new.stacks.len()).collect();
        assert_eq!(kept, [31, 31, 1, 0], "32 MiB of a program, 64 MiB of all");
    }

    #[test]
    fn a_folder_is_of_a_program_and_a_day() {
        let hour = 498_530;
        let one = folder_of("shop", hour, &part(0..3, "a"));
        assert_eq!(one, folder_of("cart", hour, &part(7..9, "a")), "the program, not the service");
        assert_ne!(one, folder_of("shop", hour, &part(0..3, "b")));
        assert_ne!(folder_of("shop", hour, &part(0..3, "")), folder_of("cart", hour, &part(0..3, "")));
        assert!(
            one.starts_with("2026-11-15~") && is_of_day(&one, hour) && !is_of_day(&one, hour + 24),
            "{one}"
        );
        assert!(is_before(&one, hour + 24) && !is_before(&one, hour) && !is_before("x", hour));
        assert!(is_path(&format!("{one}/5f0c93ab-17947068")));
        for wrong in ["", "a", "a/", "../b", "a/../b", "a/b/c", "a/.."] {
            assert!(!is_path(wrong), "{wrong}");
        }
    }
}
