//! DWARF: maps addresses to functions, inlined calls, files and lines.
//!
//! A sorted batch of addresses is processed in one pass: units that contain none are not opened, and in the others
//! each entry and each line row is read once and kept only if it contains an address. Nothing parsed outlives the
//! batch except the [`UnitIndex`], which is plain numbers. So memory use stays small, and there are no
//! self-referential caches.

mod attributes;
mod functions;
mod lines;
mod origin;
mod root;
mod split;
mod units;

use std::sync::Arc;

use crate::elf::Elf;
use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::elf::section::Section;
use crate::names::{FunctionNames, NameTable};
use crate::{Result, elf};

pub(crate) use split::{NoSplitFiles, SplitFiles, SplitRequest};
pub(crate) use units::UnitIndex;

pub(crate) use crate::elf::section::Slice;
pub(crate) type Dwarf<'d> = gimli::Dwarf<Slice<'d>>;
type Unit<'d> = gimli::Unit<Slice<'d>>;
type Sections<'d> = gimli::DwarfSections<Section<'d>>;

/// Deeper chains of inlined calls are cut: real programs have none, but a hostile file may.
const DEEPEST_INLINING: usize = 256;

/// One function at an address: the real one, or one inlined there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DwarfFrame {
    /// The names; `None` if only the line is known.
    pub(crate) names: Option<FunctionNames>,
    /// Whether the names come from `DW_AT_name`, which lacks the path; a symbol table may have a better one.
    pub(crate) has_short_name: bool,
    pub(crate) file: Arc<str>,
    pub(crate) start_line: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The DWARF sections of a file that lookups need, decompressed.
pub(crate) struct DebugSections<'d> {
    sections: Sections<'d>,
    supplement: Option<Sections<'d>>,
    endian: elf::Endian,
}

impl<'d> DebugSections<'d> {
    /// Loads them from `file` and from the `supplement` that dwz has split off, if any.
    pub(crate) fn load(file: &Elf<'d>, supplement: Option<&Elf<'d>>, patience: &'d Patience) -> Result<Self> {
        let endian = elf::endianness(file);
        let sections = Sections::load(|id| load_section(file, id, id.name(), patience))?;
        let supplement = supplement
            .map(|file| Sections::load(|id| load_section(file, id, id.name(), patience)))
            .transpose()?;
        Ok(Self { sections, supplement, endian })
    }

    pub(crate) fn dwarf(&self) -> Dwarf<'_> {
        self.sections.borrow_with_sup(self.supplement.as_ref(), |section| section.reader(self.endian))
    }
}

fn load_section<'d>(
    file: &Elf<'d>,
    id: gimli::SectionId,
    name: &str,
    patience: &'d Patience,
) -> Result<Section<'d>> {
    use gimli::SectionId as Id;
    match id {
        Id::DebugAbbrev
        | Id::DebugAddr
        | Id::DebugAranges
        | Id::DebugInfo
        | Id::DebugLine
        | Id::DebugLineStr
        | Id::DebugRanges
        | Id::DebugRngLists
        | Id::DebugStr
        | Id::DebugStrOffsets
        | Id::DebugCuIndex => elf::section(file, name, patience),
        _ => Ok(Section::empty()),
    }
}

/// What a lookup needs besides the addresses.
pub(crate) struct Lookup<'l, 'd> {
    pub(crate) dwarf: &'l Dwarf<'d>,
    pub(crate) index: &'l UnitIndex,
    pub(crate) split: &'l dyn SplitFiles,
    pub(crate) patience: &'l Patience,
}

impl<'d> Lookup<'_, 'd> {
    /// Returns the frames at each of `addresses` (sorted, without duplicates), innermost first, or none if nothing is
    /// known. A damaged unit does not affect the others; `warnings` says what went wrong.
    pub(crate) fn frames(
        &self,
        addresses: &[u64],
        names: &mut NameTable,
        warnings: &mut Vec<String>,
    ) -> Vec<Vec<DwarfFrame>> {
        let mut answers = vec![Vec::new(); addresses.len()];
        let image = self.split.package().map(|bytes| Image::new(bytes, self.patience.memory_limit()));
        let package = image.as_ref().map(|image| split::Package::load(image, self.patience));
        let package = package.and_then(|package| {
            package.map_err(|error| warnings.push(format!("cannot use the DWARF package: {error}"))).ok()
        });
        let mut origins = origin::Origins::new(self.dwarf, self.index, self.patience);
        let by_unit = match self.index.units_of(addresses, self.patience) {
            Ok(by_unit) => by_unit,
            Err(error) => {
                warnings.push(error.to_string());
                return answers;
            }
        };
        for (unit, rows) in by_unit {
            // The first unit that knows a function wins, as in other readers.
            let rows: Vec<u32> =
                rows.into_iter().filter(|&row| !has_function(&answers[row as usize])).collect();
            if rows.is_empty() {
                continue;
            }
            let mut visit = functions::UnitVisit::new(self, addresses, &rows);
            let outcome = visit.run(unit, package.as_ref(), &mut origins, names);
            for (row, frames) in visit.into_frames() {
                if !frames.is_empty() {
                    answers[row as usize] = frames;
                }
            }
            if let Err(error) = outcome {
                warnings.push(error.to_string());
                if error.kind() == crate::ErrorKind::TooSlow {
                    break;
                }
            }
        }
        answers
    }
}

fn has_function(frames: &[DwarfFrame]) -> bool {
    frames.iter().any(|frame| frame.names.is_some())
}

/// Returns whether the functions of a Rust or C++ unit have their linkage names, by looking at the first few that are
/// or were inlined. `None` for other languages, and if there is no such function.
pub(crate) fn has_linkage_names(unit: &Unit<'_>) -> gimli::Result<Option<bool>> {
    const MOST_ENTRIES: usize = 20_000;
    const ENOUGH: usize = 32;
    let mut entries = unit.entries_raw(None)?;
    let mut inlined = 0;
    for _ in 0..MOST_ENTRIES {
        if entries.is_empty() || inlined == ENOUGH {
            break;
        }
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let has = |name| abbreviation.attributes().iter().any(|attribute| attribute.name() == name);
        if matches!(abbreviation.tag(), gimli::DW_TAG_compile_unit | gimli::DW_TAG_skeleton_unit) {
            let mut is_mangled = false;
            for &specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(specification)?;
                is_mangled |= matches!(attribute.value(), gimli::AttributeValue::Language(language)
                    if is_mangling(language));
            }
            if !is_mangled {
                return Ok(None);
            }
            continue;
        }
        if abbreviation.tag() == gimli::DW_TAG_subprogram && has(gimli::DW_AT_inline) {
            if has(gimli::DW_AT_linkage_name) || has(gimli::DW_AT_specification) {
                return Ok(Some(true));
            }
            inlined += 1;
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok((inlined > 0).then_some(false))
}

fn is_mangling(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_Rust
            | gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
    )
}
