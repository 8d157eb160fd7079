//! Symbolizes a whole profile: every location that is only an address gets its frames.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use flamelet_profile::{LocationId, Mapping, MappingId, MappingSymbols, NamedLine, Profile};
use rustc_hash::FxHashMap;

use crate::MappedAt;
use crate::kernel;
use crate::owner::note_crates;
use crate::rust_name::module_of_last_name;
use crate::symbolize::options::ModuleName;
use crate::symbolize::{Frame, SymbolizeOptions, Symbolizer};

/// The result of symbolizing a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolizeSummary {
    /// Locations that were looked up.
    pub asked: usize,
    /// Locations whose function was found.
    pub resolved: usize,
    /// Locations whose line was found too.
    pub with_lines: usize,
    /// Each mapping that was looked up.
    pub mappings: Vec<MappingSummary>,
}

/// The result for one mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingSummary {
    /// The file, as the profile names it; `[kernel.kallsyms]` for kernel addresses without a mapping.
    pub file: String,
    /// Its build id in hexadecimal, empty if the profile does not have it.
    pub build_id: String,
    /// Locations that were looked up.
    pub asked: usize,
    /// Locations whose function was found.
    pub resolved: usize,
    /// Locations whose line was found too.
    pub with_lines: usize,
    /// The files that were used, the one with debug information first.
    pub sources: Vec<PathBuf>,
    /// Warnings for the user, a line each: a wrong build, a damaged file, a guess.
    pub warnings: Vec<String>,
}

impl SymbolizeSummary {
    /// Returns every warning, with the file it is about.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.mappings.iter().flat_map(|mapping| {
            mapping.warnings.iter().map(|warning| (mapping.file.as_str(), warning.as_str()))
        })
    }
}

/// Fills in functions, files, lines and inlined frames of every location of `profile` that has none.
///
/// To symbolize several profiles of the same program, keep a [`Symbolizer`] and use its method instead.
pub fn symbolize_profile(profile: &mut Profile, options: &SymbolizeOptions) -> SymbolizeSummary {
    Symbolizer::new(options.clone()).symbolize_profile(profile)
}

/// The locations of one mapping that need symbols.
struct MappingGroup {
    mapping: Option<MappingId>,
    name: ModuleName,
    mapped: MappedAt,
    locations: Vec<LocationId>,
    addresses: Vec<u64>,
}

impl Symbolizer {
    /// Fills in functions, files, lines and inlined frames of every location of `profile` that has none
    /// (or of all, with [`SymbolizeOptions::force`]), and marks the mappings that are done.
    pub fn symbolize_profile(&mut self, profile: &mut Profile) -> SymbolizeSummary {
        let mut summary = SymbolizeSummary::default();
        let mut answers: FxHashMap<LocationId, Arc<[Frame]>> = FxHashMap::default();
        let (start, before, together) = (Instant::now(), self.answered(), self.options().together);
        let is_used_up = |symbolizer: &Self| {
            let answered = symbolizer.answered() - before;
            together.is_some_and(|most| start.elapsed() >= most.time || answered >= most.memory)
        };
        for group in groups(profile, self.options()) {
            if is_used_up(self) {
                summary.asked += group.addresses.len();
                summary.mappings.push(left_out(group));
                continue;
            }
            let frames = self.frames(&group.name, group.mapped, &group.addresses);
            let report = self.report(&group, &frames);
            if let Some(mapping) = group.mapping {
                let has_lines = self.module(&group.name).is_some_and(|module| module.has_debug_info());
                mark(&mut profile.mappings_mut()[mapping.index()], &report, has_lines);
            }
            summary.asked += report.asked;
            summary.resolved += report.resolved;
            summary.with_lines += report.with_lines;
            summary.mappings.push(report);
            answers.extend(group.locations.into_iter().zip(frames).filter(|(_, frames)| !frames.is_empty()));
        }
        profile.relabel_locations(|_, location| {
            answers.get(&location).map(|frames| frames.iter().map(named_line).collect())
        });
        profile.complete_allocation_frames(module_of_last_name);
        if summary.resolved > 0 {
            note_crates(profile);
        }
        summary
    }

    fn report(&self, group: &MappingGroup, frames: &[Arc<[Frame]>]) -> MappingSummary {
        let module = self.module(&group.name);
        MappingSummary {
            file: group.name.path.clone(),
            build_id: group.name.build_id.clone(),
            asked: frames.len(),
            resolved: frames.iter().filter(|frames| !frames.is_empty()).count(),
            with_lines: frames.iter().filter(|frames| frames.iter().any(|frame| frame.line != 0)).count(),
            sources: module.map_or(Vec::new(), |module| module.sources()),
            warnings: module.map_or(Vec::new(), |module| module.warnings.clone()),
        }
    }
}

/// Returns the report on a file that was not opened.
fn left_out(group: MappingGroup) -> MappingSummary {
    MappingSummary {
        file: group.name.path,
        build_id: group.name.build_id,
        asked: group.addresses.len(),
        warnings: vec![
            "not opened: looking up names in the other files took too long or too much memory".into(),
        ],
        ..MappingSummary::default()
    }
}

/// Returns the locations that need symbols, grouped by mapping. Addresses without a mapping belong to the kernel if
/// only it can have them, else to the one binary that the user named.
fn groups(profile: &Profile, options: &SymbolizeOptions) -> Vec<MappingGroup> {
    let mut groups: Vec<MappingGroup> = Vec::new();
    let mut by_mapping: FxHashMap<(Option<MappingId>, bool), usize> = FxHashMap::default();
    let names_one_binary = options.search.binaries.len() == 1;
    for (index, location) in profile.locations().iter().enumerate() {
        let wants = location.address != 0 && (options.force || profile.lines_of(location).is_empty());
        let of_kernel = location.mapping.is_none() && kernel::is_kernel_address(location.address);
        if !wants || location.mapping.is_none() && !of_kernel && !names_one_binary {
            continue;
        }
        let group = *by_mapping.entry((location.mapping, of_kernel)).or_insert_with(|| {
            groups.push(MappingGroup::new(profile, location.mapping, of_kernel));
            groups.len() - 1
        });
        groups[group].locations.push(LocationId::from_index(index));
        groups[group].addresses.push(location.address);
    }
    groups
}

impl MappingGroup {
    fn new(profile: &Profile, mapping: Option<MappingId>, of_kernel: bool) -> Self {
        let (name, mapped) = match mapping.map(|id| profile.mapping(id)) {
            Some(mapping) => {
                let path = profile.string(mapping.filename).to_owned();
                let build_id = profile.string(mapping.build_id).to_owned();
                let mapped = MappedAt { start: mapping.start, limit: mapping.limit, offset: mapping.offset };
                (ModuleName { path, build_id }, mapped)
            }
            None => {
                let path =
                    if of_kernel { flamelet_profile::KERNEL_MAPPING.to_owned() } else { String::new() };
                (ModuleName { path, build_id: String::new() }, MappedAt::default())
            }
        };
        Self { mapping, name, mapped, locations: Vec::new(), addresses: Vec::new() }
    }
}

fn mark(mapping: &mut Mapping, report: &MappingSummary, has_debug_info: bool) {
    if report.resolved == 0 {
        return;
    }
    mapping.symbols = MappingSymbols {
        functions: true,
        // A stripped Go program has lines, too.
        filenames: mapping.symbols.filenames || has_debug_info || report.with_lines > 0,
        line_numbers: mapping.symbols.line_numbers || has_debug_info || report.with_lines > 0,
        inline_frames: mapping.symbols.inline_frames || has_debug_info,
    };
}

fn named_line(frame: &Frame) -> NamedLine {
    NamedLine {
        name: frame.name.to_string(),
        system_name: frame.system_name.to_string(),
        filename: frame.file.to_string(),
        start_line: frame.start_line.into(),
        line: frame.line.into(),
        column: frame.column.into(),
    }
}
