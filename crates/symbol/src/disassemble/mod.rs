//! Disassembles machine code, with the cost of each instruction: the data of `disasm`.
//!
//! | to … | use |
//! |---|---|
//! | see the hot instructions of a profile | [`annotate`] |
//! | disassemble a function or a range of a file | [`function`], [`range`] |

mod aarch64;
mod annotate;
mod x86_64;

use std::ops::Range;

use object::{Architecture, Object, ObjectSection, SectionKind};
use rustc_hash::FxHashMap;

use crate::demangle::demangle;
use crate::elf::Elf;
use crate::elf::image::Image;
use crate::elf::{self, symbols};
use crate::{Error, ErrorKind, Result};

pub use annotate::{AnnotatedCode, AnnotatedInstruction, annotate};
pub use x86_64::Syntax;

/// Real functions are shorter; a hostile symbol may claim any size.
const LONGEST_FUNCTION: u64 = 16 << 20;

/// One machine instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address in the file.
    pub address: u64,
    /// Its length in bytes.
    pub length: usize,
    /// The instruction, such as `mov %rsp,%rbp`. Addresses of known functions are followed by their name.
    pub text: String,
    /// The address that it calls or jumps to, if the instruction contains it.
    pub target: Option<u64>,
}

/// How to disassemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The syntax of x86-64 instructions.
    pub syntax: Syntax,
}

/// Names of the addresses that instructions refer to.
#[derive(Default)]
pub(crate) struct TargetNames(FxHashMap<u64, String>);

impl TargetNames {
    /// Looks up the demangled names of the functions that start at exactly these addresses.
    fn of(file: &Elf<'_>, mut addresses: Vec<u64>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        let mut names = FxHashMap::default();
        for symbol in symbols::all(file) {
            if addresses.binary_search(&symbol.address).is_ok() {
                let name = String::from_utf8_lossy(symbol.name);
                names.entry(symbol.address).or_insert_with(|| demangle(&name).into_owned());
            }
        }
        Self(names)
    }

    fn get(&self, address: u64) -> Option<&str> {
        self.0.get(&address).map(String::as_str)
    }
}

/// Disassembles the function in the ELF file `bytes` whose symbol, mangled or demangled, is `name`.
pub fn function(bytes: &[u8], name: &str, style: Style) -> Result<Vec<Instruction>> {
    let image = Image::of(bytes);
    let file = elf::parse(&image)?;
    let found = symbols::all(&file).find(|symbol| {
        let text = String::from_utf8_lossy(symbol.name);
        text == name || demangle(&text) == name
    });
    let symbol = found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no function {name}")))?;
    instructions(&file, symbol.address..symbol.address.saturating_add(symbol.size), style)
}

/// Disassembles a range of file addresses of the ELF file in `bytes`.
pub fn range(bytes: &[u8], addresses: Range<u64>, style: Style) -> Result<Vec<Instruction>> {
    instructions(&elf::parse(&Image::of(bytes))?, addresses, style)
}

pub(crate) fn instructions(file: &Elf<'_>, addresses: Range<u64>, style: Style) -> Result<Vec<Instruction>> {
    let code = code(file, &addresses)?;
    // The first pass finds out which names are needed.
    let bare = decode(file.architecture(), &code, addresses.start, style, &TargetNames::default())?;
    let names = TargetNames::of(file, bare.iter().filter_map(|instruction| instruction.target).collect());
    decode(file.architecture(), &code, addresses.start, style, &names)
}

fn decode(
    architecture: Architecture,
    code: &[u8],
    address: u64,
    style: Style,
    names: &TargetNames,
) -> Result<Vec<Instruction>> {
    match architecture {
        Architecture::X86_64 => Ok(x86_64::decode(code, address, style.syntax, names)),
        Architecture::Aarch64 => Ok(aarch64::decode(code, address, names)),
        other => Err(Error::new(ErrorKind::Unsupported, format!("cannot disassemble code for {other:?}"))),
    }
}

/// Returns the bytes of the file that are loaded at `addresses`.
fn code(file: &Elf<'_>, addresses: &Range<u64>) -> Result<Vec<u8>> {
    let size = addresses.end.saturating_sub(addresses.start);
    if size == 0 || size > LONGEST_FUNCTION {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("a function of {size} bytes cannot be disassembled"),
        ));
    }
    let mut sections = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let start = sections.find_map(|section| {
        let inside = addresses.start.checked_sub(section.address())?;
        let (offset, section_size) = section.file_range()?;
        (inside.checked_add(size)? <= section_size).then(|| offset.checked_add(inside))?
    });
    let missing = || {
        let Range { start, end } = addresses;
        Error::new(ErrorKind::NotFound, format!("the file has no code at {start:#x}..{end:#x}"))
    };
    let start = start.ok_or_else(missing)?;
    file.image.copy(start..start.checked_add(size).ok_or_else(missing)?)
}

/// Appends the function's name to an address, if it is known.
fn with_name(text: &mut String, target: Option<u64>, names: &TargetNames) {
    if let Some(name) = target.and_then(|target| names.get(target)) {
        text.push_str(" <");
        text.push_str(name);
        text.push('>');
    }
}
