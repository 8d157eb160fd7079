//! For which addresses the machine has names: those in files with a symbol table, a debug file or Go's own table, and
//! those that a stripped file exports. Read with `readelf`, so that flamelet does not judge itself.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, run};

/// How many samples a recording has, and how many of them are of code without a name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Unnamed {
    pub(super) samples: f64,
    /// The machine has a name for it.
    pub(super) missed: f64,
    /// The machine has none.
    pub(super) nameless: f64,
}

impl Unnamed {
    /// Counts the samples in `raw`, what `flamelet raw` prints, by their innermost location.
    pub(super) fn of(raw: &str) -> Result<Self, Failure> {
        Self::with_names(raw, |mapping| match mapping.path.is_file() {
            true => Names::of_file(mapping),
            // The kernel and generated code: their names are in lists of the kernel and of the runtime.
            false => Ok(Names::All),
        })
    }

    fn with_names(raw: &str, names_of: impl Fn(&Mapping) -> Result<Names, Failure>) -> Result<Self, Failure> {
        let recording = Recording::read(raw);
        let mut names: HashMap<u64, Names> = HashMap::new();
        let mut found = Self::default();
        for (location, count) in &recording.samples {
            found.samples += count;
            let Some(&(address, number)) = recording.unnamed.get(location) else { continue };
            let Some(mapping) = recording.mappings.get(&number) else {
                found.missed += count;
                continue;
            };
            let names = match names.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(names_of(mapping)?),
            };
            let is_named = names.has(address.wrapping_sub(mapping.start).wrapping_add(mapping.offset));
            *(if is_named { &mut found.missed } else { &mut found.nameless }) += count;
        }
        Ok(found)
    }

    /// Returns the unnamed part of the samples in code that has names, in percent.
    pub(super) fn missed_percent(self) -> f64 {
        self.missed / (self.samples - self.nameless).max(1.0) * 100.0
    }

    /// Returns the part of all samples that is in code without names, in percent.
    pub(super) fn nameless_percent(self) -> f64 {
        self.nameless / self.samples.max(1.0) * 100.0
    }
}

struct Mapping {
    start: u64,
    offset: u64,
    path: PathBuf,
    build_id: String,
}

/// What is needed of `flamelet raw`.
#[derive(Default)]
struct Recording {
    /// Samples by the number of their innermost location.
    samples: BTreeMap<u64, f64>,
    /// The address and the mapping's number of each location without a name.
    unnamed: HashMap<u64, (u64, u64)>,
    mappings: HashMap<u64, Mapping>,
}

impl Recording {
    fn read(raw: &str) -> Self {
        let mut recording = Self::default();
        let mut section = "";
        for line in raw.lines() {
            match line {
                "Samples:" | "Locations" | "Mappings" => section = line,
                _ if section == "Samples:" => recording.sample(line).unwrap_or_default(),
                _ if section == "Locations" => recording.location(line).unwrap_or_default(),
                _ if section == "Mappings" => recording.mapping(line).unwrap_or_default(),
                _ => {}
            }
        }
        recording
    }

    /// Reads a line like `3  3009027: 1 2 3`, with the count first and the innermost location after the colon.
    fn sample(&mut self, line: &str) -> Option<()> {
        let (values, stack) = line.split_once(": ")?;
        let values: Vec<f64> =
            values.split_whitespace().map(|value| value.parse().ok()).collect::<Option<_>>()?;
        let leaf = stack.split_whitespace().next()?.parse().ok()?;
        *self.samples.entry(leaf).or_default() += values.first()?;
        Some(())
    }

    /// Reads a line like `49: 0x7f33da285250 M=4 NAME …`; inlined callers follow on lines without a number.
    fn location(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        let address = hexadecimal(words.next()?)?;
        let mapping = words.next().and_then(|word| word.strip_prefix("M=")?.parse().ok()).unwrap_or(0);
        if words.next().is_none() {
            self.unnamed.insert(number, (address, mapping));
        }
        Some(())
    }

    /// Reads a line like `1: 0x1000/0x3000/0x0 /usr/bin/a 00ff [FN]`.
    fn mapping(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        let range: Vec<u64> = words.next()?.split('/').map(hexadecimal).collect::<Option<_>>()?;
        let [start, _, offset] = range[..] else { return None };
        let path = PathBuf::from(words.next()?);
        let build_id = words.next().filter(|word| !word.starts_with('[')).unwrap_or_default().to_owned();
        self.mappings.insert(number, Mapping { start, offset, path, build_id });
        Some(())
    }
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

/// Which places of a file have names.
enum Names {
    All,
    /// By offset in the file.
    Some(Vec<Range<u64>>),
}

impl Names {
    fn of_file(mapping: &Mapping) -> Result<Self, Failure> {
        let debug_file = mapping.build_id.split_at_checked(2).map(|(folder, file)| {
            Path::new("/usr/lib/debug/.build-id").join(folder).join(file).with_extension("debug")
        });
        if debug_file.is_some_and(|file| file.is_file()) {
            return Ok(Self::All);
        }
        run::output(Command::new("readelf").arg("-WSls").arg(&mapping.path))
            .map(|text| Self::of_headers(&text))
    }

    /// Reads the sections, program headers and symbols that `readelf -WSls` prints.
    fn of_headers(text: &str) -> Self {
        let (mut segments, mut functions, mut stubs) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            // `[ 6] .dynsym` is two words, `[12] .init` one and a word.
            let spaced = line.replace(['[', ']'], " ");
            let words: Vec<&str> = spaced.split_whitespace().collect();
            match words[..] {
                [_, ".symtab", "SYMTAB", ..] => return Self::All,
                [_, name, "PROGBITS", ..] if name.ends_with(".gopclntab") => return Self::All,
                [_, name, "PROGBITS", _, offset, size, ..] if name.starts_with(".plt") => {
                    stubs.extend(range(offset, size));
                }
                ["LOAD", offset, address, _, size, ..] => {
                    segments.extend(range(address, size).zip(hexadecimal(offset)));
                }
                [_, address, size, "FUNC" | "IFUNC", _, _, index, _, ..] if index != "UND" => {
                    let size = size.parse().ok().or_else(|| hexadecimal(size));
                    functions.extend(hexadecimal(address).zip(size));
                }
                _ => {}
            }
        }
        let in_file = functions.into_iter().filter_map(|(address, size): (u64, u64)| {
            let (segment, offset) = segments.iter().find(|(segment, _)| segment.contains(&address))?;
            let start = address - segment.start + offset;
            Some(start..start.saturating_add(size))
        });
        Self::Some(in_file.chain(stubs).collect())
    }

    fn has(&self, offset: u64) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranges) => ranges.iter().any(|range| range.contains(&offset)),
        }
    }
}

/// Returns the range of two hexadecimal numbers, a start and a length.
fn range(start: &str, length: &str) -> Option<Range<u64>> {
    let (start, length) = (hexadecimal(start)?, hexadecimal(length)?);
    Some(start..start.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_a_name_are_told_by_the_tables_of_their_files() {
        let raw = "PeriodType: cpu nanoseconds\nSamples:\nsamples/count cpu/nanoseconds[dflt]\n\
                   \x20        5    5000: 1 2 \n                thread:[a: 1 2]\n         2    2000: 2 \n\
                   \x20        1    1000: 3 1 \n         4    4000: 4 1 \nLocations\n\
                   \x20    1: 0x5000 M=1 main a.c:1:2 s=1(main)\n             inlined a.c:2:3 s=1(inlined)\n\
                   \x20    2: 0x5010 M=1 \n     3: 0xffffffff81000000 M=2 \n     4: 0x5030 M=1 \n\
                   Mappings\n1: 0x5000/0x9000/0x1000 /usr/bin/a 00ff [FN]\n\
                   2: 0x8000000000000000/0xffffffffffffffff/0x0 [kernel.kallsyms]  [FN]\n";
        let names_of = |mapping: &Mapping| match mapping.path.starts_with("/") {
            true => Ok(Names::Some(std::iter::once(0x1010..0x1020).collect())),
            false => Ok(Names::All),
        };
        let found = Unnamed::with_names(raw, names_of).expect("readable");
        assert_eq!(found, Unnamed { samples: 12.0, missed: 3.0, nameless: 4.0 });
        assert_eq!((found.missed_percent(), found.nameless_percent().round()), (37.5, 33.0));
    }

    #[test]
    fn a_stripped_file_has_names_for_what_it_exports() {
        let headers = "  [ 6] .dynsym           DYNSYM          0000000000007278 007278 0192d8 18   A  7   1  8\n\
                       \x20 [13] .plt              PROGBITS        000000000005f020 05e020 001180 10  AX  0   0 16\n\
                       \x20 LOAD           0x05e000 0x000000000005f000 0x000000000005f000 0x116ebd 0x116ebd R E 0x1000\n\
                       \x20    1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND getsockname@GLIBC_2.2.5 (2)\n\
                       \x20  625: 0000000000066b50    33 FUNC    GLOBAL DEFAULT   15 luaopen_debug\n\
                       \x20  626: 0000000000066b90    33 OBJECT  GLOBAL DEFAULT   15 table\n";
        let names = Names::of_headers(headers);
        let has =
            [0x65b50, 0x65b70, 0x65b71, 0x65b90, 0x66b50, 0x5e020, 0x5f1a0].map(|offset| names.has(offset));
        assert_eq!(has, [true, true, false, false, false, true, false]);
        let whole =
            "  [30] .symtab           SYMTAB          0000000000000000 246368 00004b 18     31   1  8\n";
        assert!(Names::of_headers(whole).has(0x10));
        let go = "  [ 9] .gopclntab        PROGBITS        0000000000873b00 473b00 16a0f8 00   A  0   0 32\n";
        assert!(Names::of_headers(go).has(0x10));
    }
}
