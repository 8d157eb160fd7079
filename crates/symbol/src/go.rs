//! `.gopclntab`: the functions, files and lines that every Go program has for its own stack traces, even when it is
//! stripped of everything else.
//!
//! ```text
//! header ─► functions: (entry, offset) … ─► record: entry, name, line table, file table, unit, first line
//!                                                     │         │            │          │
//!                                                   names    values ◄────────┘     files ◄── units[unit + n]
//! ```
//!
//! Inlined calls are not in the section, so a place in an inlined function has the name of the one around it. If its
//! line is in another file, it has no line.

use gimli::Reader;
use object::{Object, ObjectSection};

use crate::Result;
use crate::elf::patience::Patience;
use crate::elf::{self, Elf};

/// What is known about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoFrame<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) file: &'t [u8],
    /// 0 if the version of the table does not have it.
    pub(crate) start_line: u32,
    /// 0 if it is in another file.
    pub(crate) line: u32,
}

/// What a file has of its table.
pub(crate) struct GoSections {
    table: Vec<u8>,
    /// Where the program's own code begins, if the file states it.
    stated_start: Option<u64>,
    /// Where `.text` begins.
    text: u64,
    /// Where the program begins.
    entry: u64,
}

impl GoSections {
    /// Reads them. Returns `None` for a program that is not Go's, or is for a machine with other words.
    pub(crate) fn load(file: &Elf<'_>, patience: &Patience) -> Result<Option<Self>> {
        const NAMES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
        let name = NAMES.into_iter().find(|name| file.section_by_name(name).is_some());
        let Some(name) = name.filter(|_| file.is_little_endian() && file.is_64()) else { return Ok(None) };
        let table = whole_section(file, name, patience)?;
        let module = whole_section(file, ".go.module", patience)?;
        let stated = [word(&table, TEXT_IN_HEADER), word(&module, TEXT_IN_MODULE)];
        Ok(Some(Self {
            stated_start: stated.into_iter().flatten().find(|&start| start != 0),
            text: file.section_by_name(".text").map_or(0, |text| text.address()),
            entry: file.entry(),
            table,
        }))
    }

    /// Returns the table, if its version is known.
    pub(crate) fn table(&self) -> Option<GoTable<'_>> {
        let header = TableHeader::parse(&self.table)?;
        let table = |text: u64| GoTable { bytes: &self.table, header, text };
        match self.stated_start {
            // Its addresses are absolute.
            _ if header.version == TableVersion::Go116 => Some(table(0)),
            Some(start) => Some(table(start)),
            // From 1.26 on the header does not have it. With C code linked in, `.text` begins with that.
            None => Some(table(self.text)).filter(|table| table.begins_at(self.entry)),
        }
    }
}

fn whole_section(file: &Elf<'_>, name: &str, patience: &Patience) -> Result<Vec<u8>> {
    let section = elf::section(file, name, patience)?;
    let data = section.reader(elf::endianness(file));
    patience.allocate(data.len() as u64)?;
    Ok(data.to_slice()?.into_owned())
}

/// Where the header and the module's description have the address of the first function.
const TEXT_IN_HEADER: usize = 24;
const TEXT_IN_MODULE: usize = 22 * 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TableVersion {
    Go116,
    Go118,
    Go120,
}

/// Where the parts are.
#[derive(Clone, Copy, Debug)]
struct TableHeader {
    version: TableVersion,
    /// Instructions begin at multiples of this.
    quantum: u64,
    functions: usize,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    table: usize,
}

impl TableHeader {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let version = match number(bytes, 0)? {
            0xffff_fffa => TableVersion::Go116,
            0xffff_fff0 => TableVersion::Go118,
            0xffff_fff1 => TableVersion::Go120,
            _ => return None,
        };
        let [0, 0, quantum @ (1 | 2 | 4), 8] = *bytes.get(4..8)? else { return None };
        // Two counts, from 1.18 on the address of the code, then the offsets of the parts.
        let first = if version == TableVersion::Go116 { 3 } else { 4 };
        let part = |at: usize| usize::try_from(word(bytes, 8 * (first + at))?).ok();
        Some(Self {
            version,
            quantum: quantum.into(),
            functions: usize::try_from(word(bytes, 8)?).ok()?,
            names: part(0)?,
            units: part(1)?,
            files: part(2)?,
            values: part(3)?,
            table: part(4)?,
        })
    }

    /// The size of an address or offset in the list of functions.
    fn field(&self) -> usize {
        if self.version == TableVersion::Go116 { 8 } else { 4 }
    }
}

/// A table whose addresses are the file's.
#[derive(Clone, Copy)]
pub(crate) struct GoTable<'t> {
    bytes: &'t [u8],
    header: TableHeader,
    text: u64,
}

impl<'t> GoTable<'t> {
    /// Returns what is known about `address`.
    pub(crate) fn find(&self, address: u64, patience: &Patience) -> Result<Option<GoFrame<'t>>> {
        let Some((entry, record)) = self.function(address) else { return Ok(None) };
        let field = |at: usize| number(self.bytes, record.checked_add(self.header.field() + at)?);
        let parts = (field(0), field(16), field(20), field(28));
        let (Some(name), Some(files), Some(lines), Some(unit)) = parts else { return Ok(None) };
        let Some(name) = self.string(self.header.names, name) else { return Ok(None) };
        let start_line = field(32).filter(|_| self.header.version >= TableVersion::Go120).unwrap_or(0);
        let own_file = self.value(files, entry, entry, patience)?;
        let file = self.value(files, entry, address, patience)?;
        let line = self.value(lines, entry, address, patience)?.filter(|_| file == own_file);
        let path = own_file.and_then(|file| self.path(unit, file)).unwrap_or(b"");
        let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        Ok(Some(GoFrame { name, file: path, start_line, line }))
    }

    /// Returns whether the function at `entry` is the one that Go programs begin with.
    fn begins_at(&self, entry: u64) -> bool {
        let Some((start, record)) = self.function(entry) else { return false };
        let name = record.checked_add(self.header.field()).and_then(|at| number(self.bytes, at));
        let name = name.and_then(|name| self.string(self.header.names, name));
        start == entry && name.is_some_and(|name| name.starts_with(b"_rt0_"))
    }

    fn covers(&self, address: u64) -> bool {
        let (first, end) = (self.entry(0), self.entry(self.header.functions));
        first.zip(end).is_some_and(|(first, end)| (first..end).contains(&address))
    }

    /// Returns where the function around `address` begins, and the offset of its record.
    fn function(&self, address: u64) -> Option<(u64, usize)> {
        if !self.covers(address) {
            return None;
        }
        let (mut low, mut high) = (0, self.header.functions);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.entry(middle)? <= address { low = middle } else { high = middle }
        }
        let at = self.place(low)?.checked_add(self.header.field())?;
        let offset = match self.header.version {
            TableVersion::Go116 => word(self.bytes, at)?,
            _ => number(self.bytes, at)?.into(),
        };
        Some((self.entry(low)?, self.header.table.checked_add(usize::try_from(offset).ok()?)?))
    }

    /// Returns where function `number` begins; after the last, where that ends.
    fn entry(&self, number: usize) -> Option<u64> {
        let at = self.place(number)?;
        match self.header.version {
            TableVersion::Go116 => word(self.bytes, at),
            _ => self.text.checked_add(self::number(self.bytes, at)?.into()),
        }
    }

    /// Returns where the entry of a function is in the table.
    fn place(&self, number: usize) -> Option<usize> {
        self.header.table.checked_add(number.checked_mul(2 * self.header.field())?)
    }

    /// Returns what the list of values at `offset` has for `address`: pairs of a change of the value and the length of
    /// the code that it holds for.
    fn value(&self, offset: u32, entry: u64, address: u64, patience: &Patience) -> Result<Option<i64>> {
        let at = self.header.values.checked_add(offset as usize);
        let Some(mut rest) = at.and_then(|at| self.bytes.get(at..)) else { return Ok(None) };
        let (mut value, mut pc) = (-1i64, entry);
        let mut is_first = true;
        loop {
            patience.spend(1)?;
            let Some(change) = variable(&mut rest).filter(|&change| change != 0 || is_first) else {
                return Ok(None);
            };
            let Some(length) = variable(&mut rest) else { return Ok(None) };
            is_first = false;
            // The lowest bit is the sign.
            let change = (change >> 1) as i64 ^ -((change & 1) as i64);
            value = value.wrapping_add(change);
            pc = pc.saturating_add(length.saturating_mul(self.header.quantum));
            if address < pc {
                return Ok(Some(value));
            }
        }
    }

    /// Returns the path of file `number` of a unit.
    fn path(&self, unit: u32, number: i64) -> Option<&'t [u8]> {
        const NONE: u32 = u32::MAX;
        let index = usize::try_from(i64::from(unit).checked_add(number)?).ok().filter(|_| unit != NONE)?;
        let offset = self::number(self.bytes, self.header.units.checked_add(index.checked_mul(4)?)?)?;
        self.string(self.header.files, offset).filter(|_| offset != NONE)
    }

    fn string(&self, part: usize, offset: u32) -> Option<&'t [u8]> {
        /// The longest name that is read.
        const LONGEST: usize = 64 << 10;
        let rest = self.bytes.get(part.checked_add(offset as usize)?..)?;
        let length = rest.iter().take(LONGEST).position(|&byte| byte == 0)?;
        (length > 0).then(|| &rest[..length])
    }
}

/// Reads a number of variable length: seven bits a byte, the lowest first.
fn variable(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    const TEXT: u64 = 0x40_1000;

    /// The code of `main.f` is 0x20 bytes long: line 7, then 8, then 0x10 bytes of an inlined function in another
    /// file; `main.g` follows, with 0x10 bytes in line 20.
    fn sections(version: TableVersion) -> GoSections {
        let names = b"\0_rt0_amd64_linux\0main.f\0main.g\0".to_vec();
        let units: Vec<u8> = [0u32, 10].map(u32::to_le_bytes).concat();
        let files = b"/src/a.go\0/src/b.go\0".to_vec();
        // Changes are doubled, lengths are not: lines 7, 8 and 90, files 0 and 1; then line 20 and file 0.
        let values = [&[0][..], &[16, 8, 2, 8, 164, 1, 16, 0], &[2, 16, 2, 16, 0], &[42, 16, 0], &[2, 16, 0]];
        let values = values.concat();
        let records = [(1u32, 17u32, 17u32, 1u32), (18, 9, 1, 5), (25, 17, 14, 19)];
        let entries = [0u64, 0x10, 0x30, 0x40];
        build(version, &names, &units, &files, &values, &records, &entries)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of the format")]
    fn build(
        version: TableVersion,
        names: &[u8],
        units: &[u8],
        files: &[u8],
        values: &[u8],
        records: &[(u32, u32, u32, u32)],
        entries: &[u64],
    ) -> GoSections {
        let (magic, words): (u32, usize) = match version {
            TableVersion::Go116 => (0xffff_fffa, 7),
            TableVersion::Go118 => (0xffff_fff0, 8),
            TableVersion::Go120 => (0xffff_fff1, 8),
        };
        let field = if version == TableVersion::Go116 { 8 } else { 4 };
        let address = |entry: u64| match version {
            TableVersion::Go116 => (TEXT + entry).to_le_bytes().to_vec(),
            _ => (entry as u32).to_le_bytes().to_vec(),
        };
        let list = (2 * records.len() + 1) * field;
        let mut offsets = vec![8 + 8 * words];
        for part in [names, units, files, values] {
            offsets.push(offsets[offsets.len() - 1] + part.len());
        }
        let mut table = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        table.extend((records.len() as u64).to_le_bytes());
        table.extend(2u64.to_le_bytes());
        if version != TableVersion::Go116 {
            table.extend(0u64.to_le_bytes());
        }
        offsets.iter().for_each(|&offset| table.extend((offset as u64).to_le_bytes()));
        table.extend([names, units, files, values].concat());
        let size = field + 40;
        for (at, &entry) in entries.iter().enumerate() {
            table.extend(address(entry));
            if at < records.len() {
                let offset = (list + at * size) as u64;
                table.extend(&offset.to_le_bytes()[..field]);
            }
        }
        for (&(name, files, lines, start_line), &entry) in records.iter().zip(entries) {
            table.extend(address(entry));
            let fields = [name, 0, 0, 0, files, lines, 0, 0, start_line, 0];
            fields.iter().for_each(|field| table.extend(field.to_le_bytes()));
        }
        GoSections { table, stated_start: None, text: TEXT, entry: TEXT }
    }

    fn found(sections: &GoSections, address: u64) -> Option<(String, String, u32, u32)> {
        let patience = Patience::new(Limits::default());
        let frame = sections.table()?.find(address, &patience).expect("quick")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(frame.name), text(frame.file), frame.start_line, frame.line))
    }

    #[test]
    fn functions_files_and_lines_of_every_version() {
        for version in [TableVersion::Go116, TableVersion::Go118, TableVersion::Go120] {
            let sections = sections(version);
            let has_start = version == TableVersion::Go120;
            let place = |name: &str, start: u32, line| {
                Some((name.to_owned(), "/src/a.go".to_owned(), if has_start { start } else { 0 }, line))
            };
            let at = |offset| found(&sections, TEXT + offset);
            assert_eq!([at(0x10), at(0x17)], [place("main.f", 5, 7), place("main.f", 5, 7)], "{version:?}");
            assert_eq!(at(0x18), place("main.f", 5, 8), "{version:?}");
            assert_eq!(at(0x20), place("main.f", 5, 0), "{version:?}: the line is in another file");
            assert_eq!(at(0x30), place("main.g", 19, 20), "{version:?}");
            assert_eq!([found(&sections, TEXT - 1), at(0x40)], [None, None], "{version:?}");
        }
    }

    #[test]
    fn a_start_that_does_not_fit_is_not_used() {
        let good = sections(TableVersion::Go120);
        let wrong = GoSections { text: TEXT - 0x10, table: good.table.clone(), ..good };
        assert_eq!(found(&wrong, TEXT + 0x18), None, "C code comes first, and the names would be wrong");
        let stated = GoSections { stated_start: Some(TEXT), ..wrong };
        assert_eq!(found(&stated, TEXT + 0x18).map(|frame| frame.0).as_deref(), Some("main.f"));
    }

    #[test]
    fn damage_is_survived() {
        let good = sections(TableVersion::Go120);
        for at in 0..good.table.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut damaged = GoSections { table: good.table.clone(), stated_start: Some(TEXT), ..good };
                damaged.table[at] = byte;
                (0..0x48).for_each(|offset| drop(found(&damaged, TEXT + offset)));
                damaged.table.truncate(at);
                (0..0x48).for_each(|offset| drop(found(&damaged, TEXT + offset)));
            }
        }
    }
}
