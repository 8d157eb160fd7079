//! Symbolizes bytes: with debug information first, then symbol tables for what is left.

use std::sync::Arc;

use gimli::Reader;

use crate::demangle::Demangle;
use crate::dwarf::{DebugSections, DwarfFrame, Lookup, NoSplitFiles, SplitFiles, UnitIndex};
use crate::elf::Elf;
use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::elf::symbols::{self, Symbol};
use crate::frame::Frame;
use crate::go::GoSections;
use crate::limits::Limits;
use crate::names::{FunctionNames, NameTable};
use crate::{Result, elf};

/// The result of [`frames_in_elf`].
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// For each address, in the order of the request, its frames: innermost inlined function first, the real function
    /// last; empty if nothing is known.
    pub frames: Vec<Arc<[Frame]>>,
    /// Warnings about what went wrong, a line each.
    pub warnings: Vec<String>,
}

/// Symbolizes `addresses` of the ELF file in `bytes`. The addresses are the file's own, as in its symbol table; for
/// those of a process see [`Symbolizer::frames`](crate::symbolize::Symbolizer::frames).
///
/// Uses only the file itself: no separate debug file, no split DWARF.
pub fn frames_in_elf(bytes: &[u8], addresses: &[u64], limits: Limits) -> Result<Resolved> {
    let image = Image::of(bytes);
    let binary = elf::parse(&image)?;
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let parts = SymbolParts {
        with_debug_info: Some(&binary),
        supplement: None,
        with_symbols: vec![&binary],
        go: Some(&binary),
    };
    let mut names = NameTable::new(Demangle::Full);
    let batch = parts.resolve(&sorted, &mut None, &NoSplitFiles, &mut names, limits);
    let frames = addresses.iter().map(|address| {
        let row = sorted.binary_search(address).expect("sorted holds every address");
        batch.frames[row].clone()
    });
    Ok(Resolved { frames: frames.collect(), warnings: batch.warnings })
}

/// The files that describe one module.
pub(crate) struct SymbolParts<'f, 'd> {
    /// The file with DWARF.
    pub(crate) with_debug_info: Option<&'f Elf<'d>>,
    /// The file that dwz split off it.
    pub(crate) supplement: Option<&'f Elf<'d>>,
    /// The files with symbol tables, the best first.
    pub(crate) with_symbols: Vec<&'f Elf<'d>>,
    /// The binary, which has a table of its own if it is a Go program.
    pub(crate) go: Option<&'f Elf<'d>>,
}

impl SymbolParts<'_, '_> {
    /// Symbolizes `addresses` (sorted, without duplicates). `index` is built when it is first needed.
    pub(crate) fn resolve(
        &self,
        addresses: &[u64],
        index: &mut Option<Arc<UnitIndex>>,
        split: &dyn SplitFiles,
        names: &mut NameTable,
        limits: Limits,
    ) -> Resolved {
        let patience = Patience::new(limits);
        names.make_room(limits.memory);
        let mut warnings = Vec::new();
        let mut described = vec![Vec::new(); addresses.len()];
        if self.with_debug_info.is_some() {
            match self.look_into_dwarf(addresses, index, split, names, &patience, &mut warnings) {
                Ok(frames) => described = frames,
                Err(error) => warnings.push(error.to_string()),
            }
        }
        if let Err(error) = self.look_into_go_table(addresses, &mut described, names, &patience) {
            warnings.push(error.to_string());
        }
        let symbols = self.find_symbols(addresses, &described, &patience, &mut warnings);
        let rows = described.into_iter().zip(symbols);
        let frames = rows.map(|(frames, symbol)| join(frames, symbol, names)).collect();
        if names.take_full() {
            warnings.push(format!("its names take more than the allowed {} bytes", patience.memory_limit()));
        }
        warnings.sort();
        warnings.dedup();
        Resolved { frames, warnings }
    }

    fn look_into_dwarf(
        &self,
        addresses: &[u64],
        index: &mut Option<Arc<UnitIndex>>,
        split: &dyn SplitFiles,
        names: &mut NameTable,
        patience: &Patience,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Vec<DwarfFrame>>> {
        let Some(file) = self.with_debug_info else { return Ok(vec![Vec::new(); addresses.len()]) };
        let sections = DebugSections::load(file, self.supplement, patience)?;
        let dwarf = sections.dwarf();
        let index = match index {
            Some(index) => index.clone(),
            None => index.insert(Arc::new(UnitIndex::new(&dwarf, patience)?)).clone(),
        };
        let lookup = Lookup { dwarf: &dwarf, index: &index, split, patience };
        Ok(lookup.frames(addresses, names, warnings))
    }

    /// Adds what Go's own table has about addresses without debug information.
    fn look_into_go_table(
        &self,
        addresses: &[u64],
        described: &mut [Vec<DwarfFrame>],
        names: &mut NameTable,
        patience: &Patience,
    ) -> Result<()> {
        let Some(file) = self.go.filter(|_| described.iter().any(Vec::is_empty)) else { return Ok(()) };
        let Some(sections) = GoSections::load(file, patience)? else { return Ok(()) };
        let Some(table) = sections.table() else { return Ok(()) };
        for (&address, frames) in addresses.iter().zip(described).filter(|(_, frames)| frames.is_empty()) {
            frames.extend(table.find(address, patience)?.map(|found| DwarfFrame {
                names: Some(names.function(found.name)),
                has_short_name: false,
                file: names.string(&String::from_utf8_lossy(found.file)),
                start_line: found.start_line,
                line: found.line,
                column: 0,
            }));
        }
        Ok(())
    }

    /// Returns the symbols at those addresses whose function is not known well.
    fn find_symbols(
        &self,
        addresses: &[u64],
        described: &[Vec<DwarfFrame>],
        patience: &Patience,
        warnings: &mut Vec<String>,
    ) -> Vec<Option<Symbol<'_>>> {
        let mut found: Vec<Option<Symbol<'_>>> = vec![None; addresses.len()];
        for file in &self.with_symbols {
            let open = |row: &usize| found[*row].is_none() && needs_symbol(&described[*row]);
            let rows: Vec<usize> = (0..addresses.len()).filter(open).collect();
            if rows.is_empty() {
                break;
            }
            let wanted: Vec<u64> = rows.iter().map(|&row| addresses[row]).collect();
            match symbols::find(file, &wanted, patience) {
                Ok(symbols) => rows.into_iter().zip(symbols).for_each(|(row, symbol)| found[row] = symbol),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        found
    }
}

fn needs_symbol(frames: &[DwarfFrame]) -> bool {
    frames.last().is_none_or(|frame| frame.names.is_none() || frame.has_short_name)
}

/// Returns the frames of the debug information, the last of them named by the symbol if that has the better name.
fn join(frames: Vec<DwarfFrame>, symbol: Option<Symbol<'_>>, names: &mut NameTable) -> Arc<[Frame]> {
    let has_name = |function: &FunctionNames| !function.name.is_empty();
    let symbol = symbol.map(|symbol| names.function(symbol.name)).filter(has_name);
    if frames.is_empty() {
        return symbol
            .map(|symbol| Frame {
                name: symbol.name,
                system_name: symbol.system_name,
                file: names.empty(),
                start_line: 0,
                line: 0,
                column: 0,
            })
            .into_iter()
            .collect();
    }
    let last = frames.len() - 1;
    let named = frames.into_iter().enumerate().filter_map(|(row, frame)| {
        let own = frame.names;
        let better = symbol.clone().filter(|symbol| {
            row == last && (own.is_none() || frame.has_short_name && symbol.name != symbol.system_name)
        });
        let known = better.or(own).filter(has_name);
        let function = known.or_else(|| named_after_file(&frame.file, names)).filter(has_name)?;
        Some(Frame {
            name: function.name,
            system_name: function.system_name,
            file: frame.file,
            start_line: frame.start_line,
            line: frame.line,
            column: frame.column,
        })
    });
    named.collect()
}

/// Names a frame after its file. Assembly may have lines without a function or a symbol around them; the symbol
/// before it would be a guess.
fn named_after_file(file: &str, names: &mut NameTable) -> Option<FunctionNames> {
    let name = file.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(FunctionNames { name: names.string(name), system_name: names.empty() })
}

/// Returns the symbols in `.gnu_debugdata` (MiniDebugInfo), as an ELF file of its own.
pub(crate) fn mini_debug_info(file: &Elf<'_>, limits: Limits) -> Result<Option<Vec<u8>>> {
    let patience = Patience::new(limits);
    let section = elf::section(file, ".gnu_debugdata", &patience)?;
    let data = section.reader(elf::endianness(file));
    if data.is_empty() {
        return Ok(None);
    }
    patience.allocate(data.len() as u64)?;
    unpack_xz(&data.to_slice()?, limits.memory)
}

#[cfg(feature = "xz")]
fn unpack_xz(data: &[u8], limit: u64) -> Result<Option<Vec<u8>>> {
    use std::io::Read;

    use crate::{Error, ErrorKind};

    let limit_kib = u32::try_from(limit >> 10).unwrap_or(u32::MAX - 1);
    let reader = lzma_rust2::XzReader::new_mem_limit(data, false, limit_kib);
    let mut unpacked = Vec::new();
    reader
        .take(limit)
        .read_to_end(&mut unpacked)
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("section .gnu_debugdata: {error}")))?;
    Ok(Some(unpacked))
}

#[cfg(not(feature = "xz"))]
fn unpack_xz(_: &[u8], _: u64) -> Result<Option<Vec<u8>>> {
    use crate::{Error, ErrorKind};
    Err(Error::new(ErrorKind::Unsupported, "has MiniDebugInfo, which this build cannot read (feature `xz`)"))
}
