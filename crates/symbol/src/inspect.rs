//! What a binary offers a profiler: symbols, debug information, unwind tables, frame pointers.

use std::path::Path;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, UnwindSection};
use object::{Architecture, Object, ObjectKind, ObjectSection, ObjectSymbol};

use crate::Result;
use crate::buildid::BuildId;
use crate::elf::Elf;
use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::elf::{self, symbols};
use crate::limits::Limits;

/// The most functions that are examined to find out whether a binary keeps frame pointers.
const MOST_FUNCTIONS: usize = 4000;
/// Shorter functions often make no calls and need no frame.
const SHORTEST_FUNCTION: u64 = 48;

/// The contents of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The processor, such as `x86_64`.
    pub architecture: String,
    /// A program, a library, or something else.
    pub kind: BinaryKind,
    /// The build id, without which a profile cannot be matched with this file later.
    pub build_id: Option<BuildId>,
    /// How much debug information there is.
    pub debug_info: DebugInfo,
    /// How debug sections are compressed, such as `zlib` or `zstd`; `None` if they are not.
    pub compression: Option<String>,
    /// The file that `.gnu_debuglink` names.
    pub debug_link: Option<String>,
    /// Entries of `.symtab` that are functions; 0 in a stripped file.
    pub symbols: usize,
    /// Entries of `.dynsym` that are functions.
    pub dynamic_symbols: usize,
    /// The xz-compressed symbols that some distributions keep in stripped files.
    pub mini_debug_info: bool,
    /// `.eh_frame`: stacks can be unwound without frame pointers.
    pub unwind_tables: bool,
    /// `.debug_frame`: the same in a form that is not loaded with the program.
    pub debug_unwind_tables: bool,
    /// How many functions set up a frame pointer.
    pub frame_pointers: FramePointers,
    /// The compilers and linkers listed in `.comment`, such as `rustc version 1.95.0`.
    pub producers: Vec<String>,
}

/// The type of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinaryKind {
    /// A program at fixed addresses.
    Program,
    /// A program that can be loaded anywhere (PIE), or a shared library: they look the same.
    Relocatable,
    /// Something that does not run by itself, such as an object file or a core dump.
    Other,
}

/// How much debug information a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugInfo {
    /// `.debug_info`: functions and inlined calls.
    pub functions: bool,
    /// `.debug_line`: files and lines.
    pub lines: bool,
    /// The functions are in `.dwo` files or a `.dwp`.
    pub split: bool,
    /// The DWARF version of the first unit.
    pub version: Option<u16>,
    /// Units whose functions have only bare names without a path, as Rust's `debug = "line-tables-only"` leaves them.
    /// Their inlined functions are shown as `map<…>` instead of `core::option::Option::map`; `debug = 1` keeps the
    /// full names.
    pub units_with_bare_names: usize,
    /// Units with functions.
    pub units: usize,
}

/// How many of the examined functions begin by setting up a frame pointer.
///
/// This is a guess from machine code: of up to 4,000 functions of 48 bytes or more (found by symbols, else by unwind
/// tables) it counts those whose first bytes save and set the frame pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramePointers {
    /// Functions examined.
    pub functions: usize,
    /// Functions that set up a frame pointer.
    pub with: usize,
}

/// The verdict of [`FramePointers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramePointerUse {
    /// Nearly every function has one.
    Yes,
    /// Some have one: typically a standard library that was built with them, in a program that was not.
    Partly,
    /// Nearly none has.
    No,
    /// There was nothing to examine, or the processor is not supported.
    Unknown,
}

impl FramePointers {
    /// Interprets the numbers: 70 % and more is yes, 5 % and less is no.
    pub fn verdict(&self) -> FramePointerUse {
        match (self.with * 100).checked_div(self.functions) {
            None => FramePointerUse::Unknown,
            Some(70..) => FramePointerUse::Yes,
            Some(6..) => FramePointerUse::Partly,
            Some(_) => FramePointerUse::No,
        }
    }
}

/// Inspects the ELF file at `path`.
pub fn inspect(path: &Path) -> Result<Inspection> {
    let image = Image::new(Bytes::open(path)?, Limits::default().memory);
    inspect_image(&image).map_err(|error| error.in_file(path))
}

/// The functions that report an overflow. The standard library does not use them, so they are linked only into programs that
/// check their own arithmetic.
const OVERFLOWS: [&[u8]; 3] =
    [b"panic_const_add_overflow", b"panic_const_sub_overflow", b"panic_const_mul_overflow"];

/// Returns whether the Rust program at `path` checks its arithmetic for overflow. The answer comes from its symbols, so a stripped program is never reported.
pub fn has_overflow_checks(path: &Path) -> Result<bool> {
    let image = Image::new(Bytes::open(path)?, Limits::default().memory);
    let file = elf::parse(&image).map_err(|error| error.in_file(path))?;
    let reports_overflow =
        |name: &[u8]| OVERFLOWS.iter().any(|text| name.windows(text.len()).any(|part| part == *text));
    Ok(symbols::all(&file).any(|symbol| reports_overflow(symbol.name)))
}

/// Inspects the ELF file in `bytes`.
pub fn inspect_bytes(bytes: &[u8]) -> Result<Inspection> {
    inspect_image(&Image::of(bytes))
}

fn inspect_image(image: &Image<'_>) -> Result<Inspection> {
    let file = elf::parse(image)?;
    let has = |name: &str| file.section_by_name(name).is_some_and(|section| section.size() > 0);
    let link = file.gnu_debuglink().ok().flatten();
    fn count<'d>(symbols: impl Iterator<Item = impl ObjectSymbol<'d>>) -> usize {
        symbols.filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition()).count()
    }
    Ok(Inspection {
        architecture: architecture(&file),
        kind: match file.kind() {
            ObjectKind::Executable => BinaryKind::Program,
            ObjectKind::Dynamic => BinaryKind::Relocatable,
            _ => BinaryKind::Other,
        },
        build_id: file.build_id().ok().flatten().and_then(BuildId::from_bytes),
        debug_info: debug_info(&file),
        compression: compression(&file),
        debug_link: link.map(|(name, _)| String::from_utf8_lossy(name).into_owned()),
        symbols: count(file.symbols()),
        dynamic_symbols: count(file.dynamic_symbols()),
        mini_debug_info: has(".gnu_debugdata"),
        unwind_tables: has(".eh_frame"),
        debug_unwind_tables: has(".debug_frame"),
        frame_pointers: frame_pointers(&file),
        producers: producers(&file),
    })
}

fn architecture(file: &Elf<'_>) -> String {
    match file.architecture() {
        Architecture::X86_64 => "x86_64".to_owned(),
        Architecture::Aarch64 => "aarch64".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn debug_info(file: &Elf<'_>) -> DebugInfo {
    let mut found = DebugInfo {
        functions: elf::has_debug_info(file),
        lines: file.section_by_name(".debug_line").is_some_and(|section| section.size() > 0),
        ..DebugInfo::default()
    };
    let patience = Patience::new(Limits::SERVICE);
    let Ok(sections) = crate::dwarf::DebugSections::load(file, None, &patience) else { return found };
    let dwarf = sections.dwarf();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        found.version.get_or_insert(header.version());
        if patience.spend(1 << 8).is_err() {
            break;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        found.split |= unit.dwo_id.is_some();
        if let Ok(Some(has_linkage_names)) = crate::dwarf::has_linkage_names(&unit) {
            found.units += 1;
            found.units_with_bare_names += usize::from(!has_linkage_names);
        }
    }
    found
}

fn compression(file: &Elf<'_>) -> Option<String> {
    let format = file.sections().find_map(|section| {
        let name = section.name().ok()?;
        let is_debug = name.starts_with(".debug_") || name.starts_with(".zdebug_");
        let format = section.compressed_file_range().ok()?.format;
        (is_debug && format != object::CompressionFormat::None).then_some(format)
    })?;
    Some(match format {
        object::CompressionFormat::Zlib => "zlib".to_owned(),
        object::CompressionFormat::Zstandard => "zstd".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    })
}

fn producers(file: &Elf<'_>) -> Vec<String> {
    let Some(data) = file.section_by_name(".comment").and_then(|section| section.data().ok()) else {
        return Vec::new();
    };
    let mut producers: Vec<String> = data
        .split(|&byte| byte == 0)
        .filter(|text| !text.is_empty())
        .take(64)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect();
    producers.sort();
    producers.dedup();
    producers
}

fn frame_pointers(file: &Elf<'_>) -> FramePointers {
    let mut starts: Vec<(u64, u64)> = symbols::all(file)
        .map(|symbol| (symbol.address, symbol.size))
        .filter(|&(_, size)| size > 0)
        .collect();
    if starts.len() < 16 {
        starts.extend(functions_of_unwind_tables(file));
    }
    starts.retain(|&(_, size)| size >= SHORTEST_FUNCTION);
    starts.sort_unstable();
    starts.dedup();
    let step = starts.len().div_ceil(MOST_FUNCTIONS).max(1);
    let segments = elf::segments(file);
    let mut found = FramePointers::default();
    for &(address, _) in starts.iter().step_by(step) {
        let Some(code) = code_at(file, &segments, address) else { continue };
        let Some(sets_frame_pointer) = sets_frame_pointer(file.architecture(), &code) else { break };
        found.functions += 1;
        found.with += usize::from(sets_frame_pointer);
    }
    found
}

/// Returns the first bytes of the function at `address`.
fn code_at(file: &Elf<'_>, segments: &[elf::Segment], address: u64) -> Option<Vec<u8>> {
    const LENGTH: u64 = 32;
    let offset = segments.iter().find_map(|segment| {
        let offset = address.checked_sub(segment.address)?;
        (offset.checked_add(LENGTH)? <= segment.file_size).then(|| segment.offset.checked_add(offset))?
    })?;
    file.image.copy(offset..offset.checked_add(LENGTH)?).ok()
}

/// Returns `None` if this processor's code is not supported.
fn sets_frame_pointer(architecture: Architecture, code: &[u8]) -> Option<bool> {
    match architecture {
        Architecture::X86_64 => {
            const END_BRANCH: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
            let code = code.strip_prefix(END_BRANCH).unwrap_or(code);
            // push %rbp; mov %rsp,%rbp in either of its two encodings.
            let is_prologue =
                |start: &[u8]| matches!(start, [0x55, 0x48, 0x89, 0xe5] | [0x55, 0x48, 0x8b, 0xec]);
            // Some checks may come first: tests of arguments, a stack probe.
            Some(code.windows(4).take(16).any(is_prologue))
        }
        Architecture::Aarch64 => {
            let mut words =
                code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            // stp x29, x30, [sp, #…] (plain or pre-indexed) among the first instructions.
            Some(words.any(|word| word & 0xfe40_7fff == 0xa800_7bfd))
        }
        _ => None,
    }
}

/// Returns the (address, size) of every function that `.eh_frame` describes.
fn functions_of_unwind_tables(file: &Elf<'_>) -> Vec<(u64, u64)> {
    let Some(section) = file.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    let frames = EhFrame::from(EndianSlice::new(data, elf::endianness(file)));
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut functions = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
        {
            functions.push((fde.initial_address(), fde.len()));
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prologues() {
        let x86 = |code: &[u8]| sets_frame_pointer(Architecture::X86_64, code);
        assert_eq!(x86(&[0x55, 0x48, 0x89, 0xe5, 0x53]), Some(true));
        assert_eq!(x86(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5]), Some(true));
        assert_eq!(x86(&[0x55, 0x53, 0x48, 0x83, 0xec, 0x18]), Some(false));
        // stp x29, x30, [sp, #-32]! and sub sp, sp, #32
        let arm = |word: u32| sets_frame_pointer(Architecture::Aarch64, &word.to_le_bytes());
        assert_eq!((arm(0xa9be_7bfd), arm(0xd100_83ff)), (Some(true), Some(false)));
        assert_eq!(sets_frame_pointer(Architecture::Riscv64, &[0; 8]), None);
    }

    #[test]
    fn verdicts() {
        let verdict = |with, functions| FramePointers { functions, with }.verdict();
        assert_eq!(verdict(0, 0), FramePointerUse::Unknown);
        assert_eq!(verdict(90, 100), FramePointerUse::Yes);
        assert_eq!(verdict(30, 100), FramePointerUse::Partly);
        assert_eq!(verdict(1, 100), FramePointerUse::No);
    }
}
