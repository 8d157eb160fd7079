//! Split DWARF: units whose entries are in `.dwo` files or packed into one `.dwp`.

use std::borrow::Cow;

use gimli::{DwarfPackageSections, Reader};

use crate::dwarf::units::UnitIndex;
use crate::dwarf::{Dwarf, Sections, Unit, load_section};
use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::elf::section::Section;
use crate::{Error, ErrorKind, Result, elf};

/// A `.dwo` file that a unit refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SplitRequest {
    /// The compilation directory.
    pub(crate) directory: String,
    /// The file, relative to the directory unless it is absolute.
    pub(crate) name: String,
}

/// Fetches what split units refer to; lookups do no I/O of their own.
pub(crate) trait SplitFiles {
    /// Returns the `.dwp` that belongs to the file, if there is one.
    fn package(&self) -> Option<Bytes>;
    /// Returns a single `.dwo` file.
    fn object(&self, request: &SplitRequest) -> Option<Bytes>;
}

/// For callers that have only bytes.
pub(crate) struct NoSplitFiles;

impl SplitFiles for NoSplitFiles {
    fn package(&self) -> Option<Bytes> {
        None
    }

    fn object(&self, _: &SplitRequest) -> Option<Bytes> {
        None
    }
}

/// Returns the file that `unit` needs, if its entries are elsewhere.
pub(super) fn request(dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> Option<SplitRequest> {
    unit.dwo_id?;
    let name = dwarf.attr_string(unit, unit.dwo_name().ok()??).ok()?;
    let directory = unit.comp_dir.as_ref().map(|directory| directory.to_string_lossy().map(Cow::into_owned));
    let directory = directory.transpose().ok()?.unwrap_or_default();
    Some(SplitRequest { directory, name: name.to_string_lossy().ok()?.into_owned() })
}

/// An opened `.dwp`.
pub(super) struct Package<'p> {
    sections: DwarfPackageSections<Section<'p>>,
    nothing: Section<'p>,
    endian: elf::Endian,
}

impl<'p> Package<'p> {
    pub(super) fn load(image: &'p Image<'p>, patience: &'p Patience) -> Result<Self> {
        let file = elf::parse(image)?;
        let endian = elf::endianness(&file);
        // All sections, because the index also refers to parts of sections that lookups do not need.
        let sections = DwarfPackageSections::load(|id| match id.dwo_name() {
            Some(name) => elf::section(&file, name, patience),
            None => Ok(Section::empty()),
        })?;
        Ok(Self { sections, nothing: Section::empty(), endian })
    }

    /// Returns the sections of the unit with this id, if the package has it.
    pub(super) fn find<'x>(&'x self, id: gimli::DwoId, parent: &Dwarf<'x>) -> Result<Option<Dwarf<'x>>> {
        let endian = self.endian;
        let package = self.sections.borrow(|section| section.reader(endian), self.nothing.reader(endian))?;
        Ok(package.find_cu(id, parent)?)
    }
}

/// Loads the sections of a `.dwo` file.
pub(super) fn load_object<'p>(
    image: &'p Image<'p>,
    patience: &'p Patience,
) -> Result<(Sections<'p>, elf::Endian)> {
    let file = elf::parse(image)?;
    let sections = Sections::load(|id| match id.dwo_name() {
        Some(name) => load_section(&file, id, name, patience),
        None => Ok(Section::empty()),
    })?;
    Ok((sections, elf::endianness(&file)))
}

/// Finds the unit with this id in a `.dwo` file or package, ready to be walked.
pub(super) fn find_unit<'x>(dwo: &Dwarf<'x>, index: &UnitIndex, skeleton: &Unit<'x>) -> Result<Unit<'x>> {
    for number in index.numbers() {
        let Ok(mut unit) = index.unit(dwo, number) else { continue };
        if unit.dwo_id == skeleton.dwo_id {
            unit.copy_relocated_attributes(skeleton);
            return Ok(unit);
        }
    }
    Err(Error::new(ErrorKind::Corrupt, "the split debug file belongs to another build"))
}
