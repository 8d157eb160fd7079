//! Symbol tables, the fallback for a binary without debug information.

use object::elf::SHF_EXECINSTR;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionFlags, SymbolIndex, SymbolKind};

use crate::Result;
use crate::elf::patience::Patience;
use crate::elf::stubs::Stubs;
use crate::elf::{Elf, ElfSymbol};

/// A function of a symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'d> {
    pub(crate) name: &'d [u8],
    pub(crate) address: u64,
    /// 0 if the table does not have it, as for hand-written assembly.
    pub(crate) size: u64,
}

/// Finds the nearest symbol at or below each of a sorted batch of addresses. The symbols may come in any order.
pub(crate) struct Nearest<'a, S> {
    addresses: &'a [u64],
    /// For each address, the highest symbol between it and the address before it.
    best: Vec<Option<(u64, S)>>,
}

impl<'a, S: Copy> Nearest<'a, S> {
    pub(crate) fn new(addresses: &'a [u64]) -> Self {
        Self { addresses, best: vec![None; addresses.len()] }
    }

    pub(crate) fn add(&mut self, start: u64, symbol: impl FnOnce() -> S) {
        let row = self.addresses.partition_point(|&address| address < start);
        if let Some(best) = self.best.get_mut(row)
            && best.as_ref().is_none_or(|&(known, _)| known < start)
        {
            *best = Some((start, symbol()));
        }
    }

    /// Returns the answer for each address.
    pub(crate) fn finish(mut self) -> Vec<Option<(u64, S)>> {
        let mut last = None;
        for best in &mut self.best {
            last = best.or(last);
            *best = last;
        }
        self.best
    }
}

/// Returns the function symbol that contains each of `addresses` (sorted).
///
/// A symbol with a size contains the addresses inside it; of several, the innermost is used, then the one that is
/// visible to the linker. A symbol without a size contains everything up to the next symbol of the section.
pub(crate) fn find<'d>(
    file: &Elf<'d>,
    addresses: &[u64],
    patience: &Patience,
) -> Result<Vec<Option<Symbol<'d>>>> {
    let mut found: Vec<Option<(SymbolEntry, u8)>> = vec![None; addresses.len()];
    let code = code_sections(file);
    let mut nearest = Nearest::new(addresses);
    for symbol in functions(file) {
        patience.spend(1)?;
        let entry = SymbolEntry::of(&symbol);
        nearest.add(entry.address, || entry);
        let first = addresses.partition_point(|&wanted| wanted < entry.address);
        let end = entry.address.saturating_add(entry.size);
        let rows =
            found[first..].iter_mut().zip(&addresses[first..]).take_while(|&(_, &wanted)| wanted < end);
        for (found, _) in rows {
            patience.spend(1)?;
            let rank = rank(&symbol.symbol);
            if found.is_none_or(|(known, known_rank)| (known.address, known_rank) < (entry.address, rank)) {
                *found = Some((entry, rank));
            }
        }
    }
    let unsized_symbols = nearest.finish().into_iter().zip(addresses).map(|(nearest, &wanted)| {
        let same_section =
            |start: u64| code.iter().any(|range| range.contains(&start) && range.contains(&wanted));
        nearest.map(|(_, entry)| entry).filter(|entry| entry.size == 0 && same_section(entry.address))
    });
    let entries = found.into_iter().zip(unsized_symbols);
    let symbols = entries.map(|(found, nearest)| found.map(|(entry, _)| entry).or(nearest)?.named(file));
    let stubs = Stubs::of(file);
    let stub = |address: u64| {
        let (name, address) = stubs.find(file, address)?;
        Some(Symbol { name: strip_version(name), address, size: Stubs::SIZE })
    };
    Ok(symbols.zip(addresses).map(|(symbol, &address)| symbol.or_else(|| stub(address))).collect())
}

/// A function in a symbol table. Its name is read only if it is the answer: the names of all that come near one would be
/// most of the string table.
#[derive(Clone, Copy)]
struct SymbolEntry {
    address: u64,
    size: u64,
    index: SymbolIndex,
    is_dynamic: bool,
}

impl SymbolEntry {
    fn of(symbol: &TableSymbol<'_, '_>) -> Self {
        let is_dynamic = symbol.is_dynamic;
        Self { address: symbol.address(), size: symbol.size(), index: symbol.index(), is_dynamic }
    }

    /// Returns the symbol; `None` if it has no name, as in a truncated file.
    fn named<'d>(self, file: &Elf<'d>) -> Option<Symbol<'d>> {
        let table = if self.is_dynamic { file.dynamic_symbol_table() } else { file.symbol_table() };
        let name =
            table?.symbol_by_index(self.index).ok()?.name_bytes().ok().filter(|name| !name.is_empty())?;
        Some(Symbol { name: strip_version(name), address: self.address, size: self.size })
    }
}

/// Returns every function symbol of the file; one may appear twice.
pub(crate) fn all<'d>(file: &Elf<'d>) -> impl Iterator<Item = Symbol<'d>> {
    functions(file).filter_map(|symbol| {
        let name = strip_version(symbol.symbol.name_bytes().ok()?);
        Some(Symbol { name, address: symbol.address(), size: symbol.size() })
    })
}

struct TableSymbol<'d, 'f> {
    symbol: ElfSymbol<'d, 'f>,
    is_dynamic: bool,
}

impl<'d, 'f> std::ops::Deref for TableSymbol<'d, 'f> {
    type Target = ElfSymbol<'d, 'f>;

    fn deref(&self) -> &Self::Target {
        &self.symbol
    }
}

fn functions<'d, 'f>(file: &'f Elf<'d>) -> impl Iterator<Item = TableSymbol<'d, 'f>> {
    let own = file.symbols().map(|symbol| TableSymbol { symbol, is_dynamic: false });
    let dynamic = file.dynamic_symbols().map(|symbol| TableSymbol { symbol, is_dynamic: true });
    own.chain(dynamic).filter(|symbol| {
        let is_code = match symbol.kind() {
            SymbolKind::Text => true,
            // Labels of assembly; `$x` and the like mark kinds of code on ARM.
            SymbolKind::Unknown | SymbolKind::Label => {
                symbol.size() == 0
                    && symbol.name_bytes().is_ok_and(|name| !name.is_empty() && name[0] != b'$')
            }
            _ => false,
        };
        is_code && symbol.section_index().is_some() && symbol.address() != 0
    })
}

fn code_sections(file: &Elf<'_>) -> Vec<std::ops::Range<u64>> {
    // A debug file has the sections of its program without their contents, so not as text.
    let is_code =
        |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR));
    let code = file.sections().filter(|section| is_code(section.flags()));
    code.map(|section| section.address()..section.address().saturating_add(section.size())).collect()
}

fn rank(symbol: &ElfSymbol<'_, '_>) -> u8 {
    match (symbol.is_global(), symbol.is_weak()) {
        (true, false) => 2,
        (_, true) => 1,
        _ => 0,
    }
}

/// Strips the version: `memcpy@@GLIBC_2.14` becomes `memcpy`.
fn strip_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|&byte| byte == b'@') {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_symbol_in_any_order() {
        let addresses = [5, 10, 11, 40];
        let mut nearest = Nearest::new(&addresses);
        for start in [30, 10, 6, 50, 41] {
            nearest.add(start, || start);
        }
        assert_eq!(nearest.finish(), [None, Some((10, 10)), Some((10, 10)), Some((30, 30))]);
    }

    #[test]
    fn versions_are_not_part_of_the_name() {
        assert_eq!(strip_version(b"memcpy@@GLIBC_2.14"), b"memcpy");
        assert_eq!(strip_version(b"@odd"), b"@odd");
    }
}
