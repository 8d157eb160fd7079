//! The few parts of an ELF file that unwinding needs: where its code is, its build id, its `.eh_frame`.

use crate::arch::Architecture;
use crate::eh_frame;
use crate::error::{Error, ErrorKind, Result};
use crate::go::{self, GoSections};
use crate::module::Module;
use crate::table::{Table, TableBuilder};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const HEADER_SIZE: usize = 64;
pub(crate) const SEGMENT_SIZE: usize = 56;
const SECTION_SIZE: usize = 64;
pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
pub(crate) const PF_X: u32 = 1;
#[cfg(target_os = "linux")]
pub(crate) const PF_R: u32 = 4;
const SHT_NOBITS: u32 = 8;
/// No `.eh_frame`, note or header table is larger; a corrupt length must not cause an allocation of its size.
const MAX_PART: u64 = 256 << 20;

/// One program header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
}

impl Segment {
    pub(crate) fn is_text(&self) -> bool {
        self.kind == PT_LOAD && self.flags & PF_X != 0
    }

    /// Returns where in the file `address` is, and how many bytes follow to the end of this segment.
    fn rest_from(&self, address: u64) -> Option<(u64, u64)> {
        let into = address.checked_sub(self.address).filter(|&into| into < self.file_size)?;
        Some((self.offset.checked_add(into)?, self.file_size - into))
    }
}

/// Returns the executable ranges of `segments`, by address in the file, in order and apart from each other.
pub(crate) fn text_ranges(segments: &[Segment]) -> Vec<Range<u64>> {
    let text = segments.iter().filter(|segment| segment.is_text());
    let range = |segment: &Segment| segment.address..segment.address.saturating_add(segment.memory_size);
    let mut ranges: Vec<Range<u64>> = text.map(range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges
}

/// An executable or a library: what is needed to place it in an address space and unwind it there.
#[derive(Debug)]
pub struct Image {
    architecture: Architecture,
    segments: Vec<Segment>,
    build_id: Arc<[u8]>,
    table: Option<Arc<Table>>,
}

impl Image {
    /// Reads the file at `path`. Only the parts that are needed are read.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of_file(&File::open(path)?)
    }

    /// The same for an open file. Callers that did not choose the name themselves open it with care, and only once.
    pub fn of_file(mut file: &File) -> Result<Self> {
        let mut read = |offset: u64, length: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(offset))?;
            file.take(length.min(MAX_PART)).read_to_end(&mut bytes)?;
            Ok(Cow::Owned(bytes))
        };
        Self::read(&mut read)
    }

    /// Reads a file that is already in memory.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut read = |offset: u64, length: u64| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len() - start);
            Ok(Cow::Borrowed(&bytes[start..start + length]))
        };
        Self::read(&mut read)
    }

    /// `read` returns what there is at the given offset, up to the given length.
    fn read<'a>(read: &mut dyn FnMut(u64, u64) -> Result<Cow<'a, [u8]>>) -> Result<Self> {
        let header = read(0, HEADER_SIZE as u64)?;
        let header: &[u8; HEADER_SIZE] = header
            .first_chunk()
            .filter(|header| header.starts_with(b"\x7fELF\x02\x01"))
            .ok_or_else(|| Error::new(ErrorKind::WrongFormat, "not a 64-bit little-endian ELF file"))?;
        let architecture = match u16_at(header, 18) {
            62 => Architecture::X86_64,
            183 => Architecture::Aarch64,
            machine => {
                let message = format!("ELF machine {machine} is not supported");
                return Err(Error::new(ErrorKind::WrongFormat, message));
            }
        };
        let segment_table = read(u64_at(header, 32), u64::from(u16_at(header, 56)) * SEGMENT_SIZE as u64)?;
        let segments: Vec<Segment> = segment_table.as_chunks().0.iter().map(segment).collect();
        let build_id = read_build_id(&segments, read)?;
        let (text, sections) = (text_ranges(&segments), Sections::read(header, read)?);
        let mut builder = TableBuilder::new(architecture);
        if let Some((address, bytes)) = find_eh_frame(&sections, &segments, read)? {
            eh_frame::add_rules(&bytes, address, &text, &mut builder);
        }
        add_go_rules(header, &sections, &text, read, &mut builder)?;
        Ok(Self { architecture, segments, build_id, table: builder.finish().map(Arc::new) })
    }

    /// Returns the machine that the code is for.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the build id; empty when the file has none.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Returns the unwind table, if the file has unwind information.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }

    /// Returns how many bytes of executable code there are.
    pub fn text_size(&self) -> u64 {
        text_ranges(&self.segments).iter().map(|range| range.end - range.start).sum()
    }

    /// Returns this image mapped at `start..end` from `file_offset` on, as given by a line of `/proc/PID/maps` or an
    /// mmap event. `None` when no segment of the file is there.
    pub fn module(&self, start: u64, end: u64, file_offset: u64, name: &str) -> Option<Module> {
        let loaded = |segment: &&Segment| {
            let page_start = segment.offset & !0xfff;
            segment.kind == PT_LOAD
                && (page_start..segment.offset.saturating_add(segment.file_size)).contains(&file_offset)
        };
        let mut candidates = self.segments.iter().filter(loaded);
        let first = candidates.next()?;
        let segment = if first.is_text() { first } else { candidates.find(|s| s.is_text()).unwrap_or(first) };
        let address_at_start = segment.address.wrapping_add(file_offset).wrapping_sub(segment.offset);
        Some(Module {
            start,
            end,
            file_offset,
            bias: start.wrapping_sub(address_at_start),
            name: name.into(),
            build_id: self.build_id.clone(),
            table: self.table.clone(),
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Decodes one program header.
pub(crate) fn segment(bytes: &[u8; SEGMENT_SIZE]) -> Segment {
    Segment {
        kind: u32_at(bytes, 0),
        flags: u32_at(bytes, 4),
        offset: u64_at(bytes, 8),
        address: u64_at(bytes, 16),
        file_size: u64_at(bytes, 32),
        memory_size: u64_at(bytes, 40),
    }
}

fn read_build_id<'a>(
    segments: &[Segment],
    read: &mut dyn FnMut(u64, u64) -> Result<Cow<'a, [u8]>>,
) -> Result<Arc<[u8]>> {
    for segment in segments.iter().filter(|segment| segment.kind == PT_NOTE) {
        if let Some(id) = build_id(&read(segment.offset, segment.file_size.min(1 << 16))?) {
            return Ok(id.into());
        }
    }
    Ok([].into())
}

/// Returns the build id in a segment of notes.
pub(crate) fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    while notes.len() >= 12 {
        let (name_size, size) = (u32_at(notes, 0) as usize, u32_at(notes, 4) as usize);
        let name_end = 12usize.checked_add(name_size)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size)?;
        let description = notes.get(start..end)?;
        if u32_at(notes, 8) == NT_GNU_BUILD_ID && notes.get(12..name_end) == Some(b"GNU\0") {
            return Some(description);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// Returns the address that `.eh_frame_hdr` at `address` gives for `.eh_frame`.
pub(crate) fn eh_frame_address(header: &[u8], address: u64) -> Option<u64> {
    const PCREL_SDATA4: u8 = 0x1b;
    match *header {
        [1, PCREL_SDATA4, _, _, a, b, c, d, ..] => {
            let offset = i64::from(i32::from_le_bytes([a, b, c, d]));
            Some(address.wrapping_add(4).wrapping_add_signed(offset))
        }
        _ => None,
    }
}

/// The section table; empty if the file has lost it.
struct Sections<'a> {
    table: Cow<'a, [u8]>,
    names: Cow<'a, [u8]>,
}

impl<'a> Sections<'a> {
    fn read(
        header: &[u8; HEADER_SIZE],
        read: &mut dyn FnMut(u64, u64) -> Result<Cow<'a, [u8]>>,
    ) -> Result<Self> {
        let table = read(u64_at(header, 40), u64::from(u16_at(header, 60)) * SECTION_SIZE as u64)?;
        let sections: &[[u8; SECTION_SIZE]] = table.as_chunks().0;
        let names = match sections.get(usize::from(u16_at(header, 62))) {
            Some(names) => read(u64_at(names, 24), u64_at(names, 32).min(1 << 20))?,
            None => Cow::Borrowed(&[][..]),
        };
        Ok(Self { table, names })
    }

    /// Returns the section of this name, if the file has its bytes.
    fn named(&self, name: &str) -> Option<Section> {
        let sections: &[[u8; SECTION_SIZE]] = self.table.as_chunks().0;
        let found = sections.iter().find(|section| {
            let rest = self.names.get(u32_at(*section, 0) as usize..);
            let rest = rest.and_then(|rest| rest.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0)) && u32_at(*section, 4) != SHT_NOBITS
        });
        found.map(|section| Section {
            address: u64_at(section, 16),
            offset: u64_at(section, 24),
            size: u64_at(section, 32),
        })
    }
}

struct Section {
    address: u64,
    offset: u64,
    size: u64,
}

/// Adds what a program in Go has instead of `.eh_frame`.
fn add_go_rules<'a>(
    header: &[u8; HEADER_SIZE],
    sections: &Sections<'a>,
    text: &[Range<u64>],
    read: &mut dyn FnMut(u64, u64) -> Result<Cow<'a, [u8]>>,
    builder: &mut TableBuilder,
) -> Result<()> {
    let Some(table) = GoSections::NAMES.iter().find_map(|name| sections.named(name)) else { return Ok(()) };
    let module = match sections.named(".go.module") {
        Some(module) => read(module.offset, module.size.min(1 << 16))?,
        None => Cow::Borrowed(&[][..]),
    };
    let table = read(table.offset, table.size)?;
    let go = GoSections {
        table: &table,
        module: &module,
        text: sections.named(".text").map_or(0, |text| text.address),
        entry: u64_at(header, 24),
    };
    go::add_rules(&go, text, builder);
    Ok(())
}

/// Finds `.eh_frame` and its address: by the section table, or else by the program headers.
fn find_eh_frame<'a>(
    sections: &Sections<'a>,
    segments: &[Segment],
    read: &mut dyn FnMut(u64, u64) -> Result<Cow<'a, [u8]>>,
) -> Result<Option<(u64, Cow<'a, [u8]>)>> {
    if let Some(section) = sections.named(".eh_frame") {
        return Ok(Some((section.address, read(section.offset, section.size)?)));
    }
    let Some(index) = segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME) else {
        return Ok(None);
    };
    let Some(address) = eh_frame_address(&read(index.offset, 8)?, index.address) else { return Ok(None) };
    let loads = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let Some((offset, length)) = loads.into_iter().find_map(|segment| segment.rest_from(address)) else {
        return Ok(None);
    };
    Ok(Some((address, read(offset, length)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn what_is_not_elf_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0x7f; 64], b"MZ\x90\0"] {
            let error = Image::parse(bytes).expect_err("not ELF");
            assert_eq!(error.kind(), ErrorKind::WrongFormat);
        }
    }

    #[test]
    fn any_cut_or_changed_byte_of_an_image_is_survived() {
        let path = std::env::current_exe().expect("this test has a file");
        let bytes = std::fs::read(path).expect("readable");
        let mut head = bytes[..4096.min(bytes.len())].to_vec();
        for at in 0..HEADER_SIZE + 13 * SEGMENT_SIZE {
            let before = std::mem::replace(&mut head[at], 0xff);
            let _ = Image::parse(&head);
            head[at] = before;
        }
        for length in (0..4096).step_by(7) {
            let _ = Image::parse(&bytes[..length]);
        }
    }

    #[test]
    fn text_is_what_any_segment_of_code_holds() {
        let code = |address, memory_size| Segment {
            kind: PT_LOAD,
            flags: PF_X,
            offset: 0,
            address,
            file_size: memory_size,
            memory_size,
        };
        let mut segments =
            [code(0x9000, 0x10), code(0x1000, 0x800), code(0x1400, 0x100), code(0x1800, 0x200)];
        let ranges = text_ranges(&segments);
        assert_eq!(ranges, [0x1000..0x1a00, 0x9000..0x9010]);
        let inside =
            [0xfff, 0x1000, 0x19ff, 0x1a00, 0x900f, 0x9010, u64::MAX].map(|at| text::contains(&ranges, at));
        assert_eq!(inside, [false, true, true, false, true, false, false]);
        assert!(!text::contains(&[], 0));
        segments[1].memory_size = u64::MAX;
        assert_eq!(text_ranges(&segments).first(), Some(&(0x1000..u64::MAX)));
    }

    #[test]
    fn notes_are_searched_for_the_build_id() {
        let other = [4, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'G', b'N', b'U', 0, 9, 9, 0, 0];
        let id = [4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 1, 2, 3, 0];
        let notes = [other, id].concat();
        assert_eq!(build_id(&notes), Some(&[1, 2, 3][..]));
        assert_eq!(build_id(&notes[..30]), None);
        assert_eq!(build_id(&[0xff; 64]), None);
    }
}
