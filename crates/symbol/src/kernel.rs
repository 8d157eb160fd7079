//! The kernel's own functions, if it shows their addresses.
//!
//! [`KernelSymbols`] holds all of them, for addresses that arrive one by one. The addresses of a profile are looked
//! up while the list is read, and the list is not kept.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::buildid::BuildId;
use crate::elf::symbols::Nearest;
use crate::frame::Frame;
use crate::names::NameTable;
use crate::process::build_id_in_notes;
use crate::{Error, ErrorKind, Result};

/// Where Linux lists the kernel's symbols.
pub(crate) const SYMBOLS: &str = "/proc/kallsyms";

/// Returns whether a mapping of this name is the kernel's.
pub(crate) fn is_kernel(mapping: &str) -> bool {
    mapping.starts_with("[kernel") || mapping.starts_with("[guest.kernel") || mapping == "vmlinux"
}

/// Returns whether only the kernel can have this address: it is in the upper half.
pub(crate) fn is_kernel_address(address: u64) -> bool {
    address >> 63 != 0
}

/// Returns the build id of the running kernel, if it has one.
fn own_build_id() -> Option<BuildId> {
    build_id_in_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

/// Returns whether `build_id`, as a profile gives it for its kernel, certainly belongs to another kernel than the
/// running one, in which the addresses would mean something else.
pub(crate) fn is_another(build_id: &str) -> bool {
    let theirs = BuildId::from_hex(build_id);
    theirs.is_some_and(|theirs| own_build_id().is_some_and(|own| own != theirs))
}

/// Returns the kernel functions at `addresses` (sorted).
pub(crate) fn frames(addresses: &[u64], names: &mut NameTable) -> Result<Vec<Arc<[Frame]>>> {
    let file = File::open(SYMBOLS).map_err(|error| Error::from(error).in_file(SYMBOLS.as_ref()))?;
    let symbols = find(BufReader::new(file), addresses)?;
    let empty = names.empty();
    let frames = symbols.into_iter().map(|symbol| {
        let function = symbol.map(|symbol| names.function(symbol.as_bytes()));
        let frame = function.map(|function| Frame {
            name: function.name,
            system_name: function.system_name,
            file: empty.clone(),
            start_line: 0,
            line: 0,
            column: 0,
        });
        frame.into_iter().collect()
    });
    Ok(frames.collect())
}

fn find(mut list: impl BufRead, addresses: &[u64]) -> Result<Vec<Option<String>>> {
    let mut nearest = Nearest::new(addresses);
    let mut candidates: Vec<String> = Vec::new();
    let mut line = Vec::new();
    let mut shows_addresses = false;
    while list.read_until(b'\n', &mut line)? > 0 {
        if let Some((address, name)) = parse(&line) {
            shows_addresses |= address != 0;
            nearest.add(address, || {
                candidates.push(String::from_utf8_lossy(&line[name]).into_owned());
                candidates.len() - 1
            });
        }
        line.clear();
    }
    if !shows_addresses {
        let why = "the kernel hides its addresses; run as root or lower kernel.kptr_restrict";
        return Err(Error::new(ErrorKind::Unsupported, format!("{SYMBOLS}: {why}")));
    }
    let found = nearest.finish().into_iter();
    Ok(found.map(|symbol| symbol.map(|(_, name)| candidates[name].clone())).collect())
}

/// Returns the address of the function on a line, and the range of its name. Lines are `ADDRESS KIND name`, followed
/// by a tab and `[module]` for functions of modules; the kinds of code are `t` and `w`.
fn parse(line: &[u8]) -> Option<(u64, Range<usize>)> {
    let (digits, rest) = line.split_at(line.iter().position(|&byte| byte == b' ')?);
    let [b' ', b't' | b'T' | b'w' | b'W', b' ', name @ ..] = rest else { return None };
    let mut address = 0;
    for &digit in digits {
        address = address << 4 | u64::from((digit as char).to_digit(16)?);
    }
    let start = line.len() - name.len();
    let length = name.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(name.len());
    Some((address, start..start + length))
}

/// All functions of the kernel, by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// The address, and the start and end of the name in `list`.
    functions: Vec<(u64, u32, u32)>,
    list: Vec<u8>,
}

impl KernelSymbols {
    /// Reads them all; `None` if the kernel hides them.
    pub fn load() -> Option<Self> {
        Self::read(File::open(SYMBOLS).ok()?)
    }

    fn read(mut file: impl Read) -> Option<Self> {
        /// The usual size: more than a hundred thousand lines of some forty bytes.
        const USUAL: usize = 8 << 20;
        let mut list = Vec::with_capacity(USUAL);
        file.read_to_end(&mut list).ok()?;
        u32::try_from(list.len()).ok()?;
        let mut functions = Vec::with_capacity(list.len() / 40);
        let mut start = 0;
        for line in list.split_inclusive(|&byte| byte == b'\n') {
            let function = parse(line);
            functions
                .extend(function.map(|(address, name)| {
                    (address, (start + name.start) as u32, (start + name.end) as u32)
                }));
            start += line.len();
        }
        flamelet_profile::sort_rows_by_key(&mut functions, |function| function.0);
        // A kernel that hides its addresses shows all of them as zero.
        functions.last().is_some_and(|last| last.0 != 0).then_some(Self { functions, list })
    }

    /// Returns the function at `address`.
    pub fn name(&self, address: u64) -> Option<&str> {
        let at = self.functions.partition_point(|function| function.0 <= address).checked_sub(1)?;
        let (_, start, end) = self.functions[at];
        std::str::from_utf8(self.list.get(start as usize..end as usize)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_function_below() {
        let list = "ffffffff81000000 T _stext\nffffffff81000100 t helper\nffffffff81000180 d data\n\
                    ffffffffc0000000 t probe\t[module]\n";
        let wanted = [0xffff_ffff_8000_0000, 0xffff_ffff_8100_01f0, 0xffff_ffff_c000_0001];
        let found = find(list.as_bytes(), &wanted).expect("readable");
        assert_eq!(found, [None, Some("helper".to_owned()), Some("probe".to_owned())]);
    }

    #[test]
    fn functions_by_address() {
        let list = "ffffffff81000100 t helper\nffffffff81000000 T _stext\nffffffff81000180 d data\n\
                    ffffffffc0000000 t probe\t[module]\n";
        let symbols = KernelSymbols::read(list.as_bytes()).expect("shown");
        assert_eq!(symbols.name(0xffff_ffff_8100_01f0), Some("helper"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0001), Some("probe"));
        assert_eq!(symbols.name(0xffff_ffff_8000_0000), None);
        assert!(KernelSymbols::read("0000000000000000 T _stext\n".as_bytes()).is_none());
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        let list = "0000000000000000 T _stext\n";
        assert_eq!(find(list.as_bytes(), &[1]).expect_err("hidden").kind(), ErrorKind::Unsupported);
    }
}
