//! The functions of a profile, instruction by instruction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flamelet_profile::{MappingId, Profile};
use rustc_hash::FxHashMap;

use crate::address::{MappedAt, Translation};
use crate::demangle::demangle;
use crate::disassemble::{Instruction, Style, instructions};
use crate::elf::Elf;
use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::elf::symbols::{self, Symbol};
use crate::locate::{Search, WantedBinary};
use crate::symbolize::{Frame, ModuleName, Symbolizer};
use crate::{Error, ErrorKind, Result, elf};

/// A function with the cost of each of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedCode {
    /// Its name, demangled.
    pub name: String,
    /// The file it was read from.
    pub file: PathBuf,
    /// The cost of its instructions alone.
    pub flat: i64,
    /// The sum of the cumulative cost of its instructions, as `go tool pprof` prints it.
    pub cumulative: i64,
    /// All its instructions.
    pub instructions: Vec<AnnotatedInstruction>,
}

/// An instruction, what it cost, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedInstruction {
    /// The instruction, with its address in the file.
    pub instruction: Instruction,
    /// Its address in the profile.
    pub process_address: u64,
    /// The cost of the instruction itself.
    pub flat: i64,
    /// The cost of the instruction and of what it calls.
    pub cumulative: i64,
    /// The source it was compiled from, innermost inlined function first; empty if unknown.
    pub frames: Arc<[Frame]>,
}

#[derive(Clone, Copy, Default)]
struct InstructionCost {
    flat: i64,
    cumulative: i64,
}

/// Returns the functions whose name `matches` and that have a cost in the value at `sample_index`, the highest cost
/// first. Also returns what could not be read, a line each.
pub fn annotate(
    profile: &Profile,
    sample_index: usize,
    matches: impl Fn(&str) -> bool,
    symbolizer: &mut Symbolizer,
    style: Style,
) -> (Vec<AnnotatedCode>, Vec<String>) {
    let (mut functions, mut warnings) = (Vec::new(), Vec::new());
    let costs = costs_by_address(profile, sample_index);
    let mut by_mapping: FxHashMap<MappingId, Vec<(u64, InstructionCost)>> = FxHashMap::default();
    for (location, cost) in profile.locations().iter().zip(costs) {
        if let Some(mapping) = location.mapping.filter(|_| cost.cumulative != 0 || cost.flat != 0) {
            by_mapping.entry(mapping).or_default().push((location.address, cost));
        }
    }
    for (mapping, costs) in by_mapping {
        match annotate_mapping(profile, mapping, &costs, &matches, symbolizer, style) {
            Ok(annotated) => functions.extend(annotated),
            Err(error) => warnings.push(error.to_string()),
        }
    }
    functions.sort_by(|a, b| b.cumulative.abs().cmp(&a.cumulative.abs()).then_with(|| a.name.cmp(&b.name)));
    warnings.sort();
    (functions, warnings)
}

/// Returns the cost of each location, counted once per sample.
fn costs_by_address(profile: &Profile, sample_index: usize) -> Vec<InstructionCost> {
    let mut costs = vec![InstructionCost::default(); profile.locations().len()];
    let mut last_seen = vec![usize::MAX; costs.len()];
    for (number, sample) in profile.samples().enumerate() {
        let value = sample.values.get(sample_index).copied().unwrap_or(0);
        for (depth, location) in profile.stack(sample.stack).iter().enumerate() {
            let cost = &mut costs[location.index()];
            if depth == 0 {
                cost.flat = cost.flat.saturating_add(value);
            }
            if std::mem::replace(&mut last_seen[location.index()], number) != number {
                cost.cumulative = cost.cumulative.saturating_add(value);
            }
        }
    }
    costs
}

fn annotate_mapping(
    profile: &Profile,
    mapping: MappingId,
    costs: &[(u64, InstructionCost)],
    matches: &impl Fn(&str) -> bool,
    symbolizer: &mut Symbolizer,
    style: Style,
) -> Result<Vec<AnnotatedCode>> {
    let mapping = profile.mapping(mapping);
    let name = ModuleName {
        path: profile.string(mapping.filename).to_owned(),
        build_id: profile.string(mapping.build_id).to_owned(),
    };
    let mapped = MappedAt { start: mapping.start, limit: mapping.limit, offset: mapping.offset };
    let wanted = WantedBinary { path: Path::new(&name.path), build_id: &name.build_id };
    let (path, bytes) = open_binary(&symbolizer.options().search, &wanted)?;
    let image = Image::new(bytes, symbolizer.options().limits.memory);
    let file = elf::parse(&image)?;
    let translation = Translation::new(mapped, &elf::segments(&file), true);
    let mut by_address: Vec<(u64, InstructionCost)> =
        costs.iter().map(|&(address, cost)| (translation.apply(address), cost)).collect();
    by_address.sort_unstable_by_key(|&(address, _)| address);

    let mut annotated = Vec::new();
    for (symbol, function) in hot_functions(&file, &by_address, matches) {
        let range = symbol.address..symbol.address.saturating_add(symbol.size);
        let instructions = instructions(&file, range.clone(), style)?;
        let addresses: Vec<u64> =
            instructions.iter().map(|instruction| translation.undo(instruction.address)).collect();
        let frames = symbolizer.frames(&name, mapped, &addresses);
        let rows = instructions.into_iter().zip(addresses).zip(frames);
        let instructions = rows.map(|((instruction, process_address), frames)| {
            let cost = cost_between(&by_address, instruction.address, instruction.length);
            let InstructionCost { flat, cumulative } = cost;
            AnnotatedInstruction { instruction, process_address, flat, cumulative, frames }
        });
        let total = cost_between(&by_address, range.start, (range.end - range.start) as usize);
        annotated.push(AnnotatedCode {
            name: function,
            file: path.clone(),
            flat: total.flat,
            cumulative: total.cumulative,
            instructions: instructions.collect(),
        });
    }
    Ok(annotated)
}

/// Returns the matching functions that have a cost, each once, with their names.
fn hot_functions<'d>(
    file: &Elf<'d>,
    by_address: &[(u64, InstructionCost)],
    matches: &impl Fn(&str) -> bool,
) -> Vec<(Symbol<'d>, String)> {
    let mut seen: FxHashMap<u64, ()> = FxHashMap::default();
    let is_hot = |symbol: &Symbol<'_>| {
        let first = by_address.partition_point(|&(address, _)| address < symbol.address);
        let end = symbol.address.saturating_add(symbol.size);
        by_address.get(first).is_some_and(|&(address, _)| address < end)
    };
    let hot = symbols::all(file).filter(is_hot).filter_map(|symbol| {
        let name = demangle(&String::from_utf8_lossy(symbol.name)).into_owned();
        (matches(&name) && seen.insert(symbol.address, ()).is_none()).then_some((symbol, name))
    });
    hot.collect()
}

/// Returns the cost of the addresses from `start` on. A capture that stores a call as the return address less one
/// points into the instruction, not at its start.
fn cost_between(by_address: &[(u64, InstructionCost)], start: u64, length: usize) -> InstructionCost {
    let first = by_address.partition_point(|&(address, _)| address < start);
    let end = start.saturating_add(length as u64);
    let inside = by_address[first..].iter().take_while(|&&(address, _)| address < end);
    inside.fold(InstructionCost::default(), |sum, (_, cost)| InstructionCost {
        flat: sum.flat.saturating_add(cost.flat),
        cumulative: sum.cumulative.saturating_add(cost.cumulative),
    })
}

/// Opens the file with the code.
fn open_binary(search: &Search, wanted: &WantedBinary<'_>) -> Result<(PathBuf, Bytes)> {
    let located = search.locate(wanted);
    let path = located.binary.ok_or_else(|| {
        let why = located.warnings.into_iter().next().unwrap_or_else(|| "no such file".to_owned());
        Error::new(ErrorKind::NotFound, format!("{}: {why}", wanted.path.display()))
    })?;
    let bytes = Bytes::open(&path)?;
    Ok((path, bytes))
}
