//! The kernel's own symbols, where it shows them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use crate::buildid::BuildId;
use crate::frame::Frame;
use crate::names::NameTable;
use crate::process::build_id_in_notes;
use crate::symbols::Nearest;
use crate::{Error, ErrorKind, Result};

/// Where Linux lists the kernel's symbols.
pub(crate) const SYMBOLS: &str = "/proc/kallsyms";
/// What profiles call the kernel's mapping.
pub(crate) const MAPPING: &str = "[kernel.kallsyms]";

/// Whether a mapping of this name is the kernel's.
pub(crate) fn is_kernel(mapping: &str) -> bool {
    mapping.starts_with("[kernel") || mapping.starts_with("[guest.kernel") || mapping == "vmlinux"
}

/// Whether only the kernel can have this address: it is in the upper half.
pub(crate) fn is_kernel_address(address: u64) -> bool {
    address >> 63 != 0
}

/// The build id of the kernel that runs here, if it says so.
fn own_build_id() -> Option<BuildId> {
    build_id_in_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

/// Whether `build_id`, as a profile names its kernel, is certainly that of another kernel: the addresses of one
/// are nonsense in the other.
pub(crate) fn is_another(build_id: &str) -> bool {
    let theirs = BuildId::from_hex(build_id);
    theirs.is_some_and(|theirs| own_build_id().is_some_and(|own| own != theirs))
}

/// The kernel functions at `addresses` (sorted).
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

/// Reads lines of the form `address type name [module]`.
fn find(mut list: impl BufRead, addresses: &[u64]) -> Result<Vec<Option<String>>> {
    let mut nearest = Nearest::new(addresses);
    let mut candidates: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut shows_addresses = false;
    while list.read_line(&mut line)? > 0 {
        if let Some((address, name)) = parse(&line) {
            shows_addresses |= address != 0;
            nearest.add(address, || {
                candidates.push(name.to_owned());
                candidates.len() - 1
            });
        }
        line.clear();
    }
    if !shows_addresses {
        let why = "the kernel hides its addresses (root, or a lower kernel.kptr_restrict, shows them)";
        return Err(Error::new(ErrorKind::Unsupported, format!("{SYMBOLS}: {why}")));
    }
    let found = nearest.finish().into_iter();
    Ok(found.map(|symbol| symbol.map(|(_, name)| candidates[name].clone())).collect())
}

fn parse(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    words.next().filter(|_| is_code).map(|name| (address, name))
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
    fn hidden_addresses_are_an_error() {
        let list = "0000000000000000 T _stext\n";
        assert_eq!(find(list.as_bytes(), &[1]).expect_err("hidden").kind(), ErrorKind::Unsupported);
    }
}
