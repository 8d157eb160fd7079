//! ELF files: reading them, their sections (decompressed), segments, symbol tables, and links to debug files.

pub(crate) mod file;
pub(crate) mod image;
pub(crate) mod patience;
pub(crate) mod section;
mod stubs;
pub(crate) mod symbols;

use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;

use object::{CompressionFormat, FileKind, Object, ObjectSection, ObjectSegment};

use crate::elf::image::Image;
use crate::elf::patience::Patience;
use crate::elf::section::Section;
use crate::{Error, ErrorKind, Result};

/// Which files can be read: those of all machines, or of this one, which is all that a service has of its own and half the
/// code.
#[cfg(feature = "foreign")]
mod machine {
    pub(crate) type ElfFile<'d, R> = object::File<'d, R>;
    pub(crate) type ElfSymbol<'d, 'f, R> = object::Symbol<'d, 'f, R>;
    pub(crate) type Endian = gimli::RunTimeEndian;
}
#[cfg(not(feature = "foreign"))]
mod machine {
    #[cfg(target_pointer_width = "32")]
    type Header = object::elf::FileHeader32<object::NativeEndian>;
    #[cfg(target_pointer_width = "64")]
    type Header = object::elf::FileHeader64<object::NativeEndian>;
    pub(crate) type ElfFile<'d, R> = object::read::elf::ElfFile<'d, Header, R>;
    pub(crate) type ElfSymbol<'d, 'f, R> = object::read::elf::ElfSymbol<'d, 'f, Header, R>;
    pub(crate) type Endian = gimli::NativeEndian;
}

pub(crate) use machine::Endian;
pub(crate) type ElfFile<'d> = machine::ElfFile<'d, &'d Image<'d>>;
pub(crate) type ElfSymbol<'d, 'f> = machine::ElfSymbol<'d, 'f, &'d Image<'d>>;

/// An ELF file whose headers have been read.
pub(crate) struct Elf<'d> {
    file: ElfFile<'d>,
    pub(crate) image: &'d Image<'d>,
}

impl<'d> Deref for Elf<'d> {
    type Target = ElfFile<'d>;

    fn deref(&self) -> &Self::Target {
        &self.file
    }
}

/// Reads the headers of an ELF file. Fails for any other file.
pub(crate) fn parse<'d>(image: &'d Image<'d>) -> Result<Elf<'d>> {
    match FileKind::parse(image) {
        Ok(FileKind::Elf32 | FileKind::Elf64) => Ok(Elf { file: ElfFile::parse(image)?, image }),
        _ => Err(Error::new(ErrorKind::WrongFormat, "not an ELF file")),
    }
}

/// Returns the byte order of `file`, as gimli expects it.
#[cfg(feature = "foreign")]
pub(crate) fn endianness(file: &Elf<'_>) -> Endian {
    if file.is_little_endian() { Endian::Little } else { Endian::Big }
}

/// Returns the byte order of this machine, which every file has that was opened.
#[cfg(not(feature = "foreign"))]
pub(crate) fn endianness(_: &Elf<'_>) -> Endian {
    gimli::NativeEndian
}

/// Returns the section `name`, decompressed if necessary; empty if there is none.
pub(crate) fn section<'d>(file: &Elf<'d>, name: &str, patience: &'d Patience) -> Result<Section<'d>> {
    let Some(section) = file.section_by_name(name) else { return Ok(Section::empty()) };
    let part = section.compressed_file_range()?;
    let range = part.offset..part.offset.saturating_add(part.compressed_size);
    match part.format {
        CompressionFormat::None => Ok(Section::part(file.image, range, patience.blocks())),
        format => {
            let size = part.uncompressed_size;
            patience.allocate(size)?;
            decompress(format, BufReader::new(file.image.stream(range)), size)
                .map(Section::in_memory)
                .map_err(|why| Error::new(why.kind(), format!("section {name}: {why}")))
        }
    }
}

fn decompress(format: CompressionFormat, data: impl BufRead, size: u64) -> Result<Vec<u8>> {
    match format {
        CompressionFormat::Zlib => read_exactly(flate2::bufread::ZlibDecoder::new(data), size),
        #[cfg(feature = "zstd")]
        CompressionFormat::Zstandard => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(data)
                .map_err(|error| Error::new(ErrorKind::Corrupt, format!("bad zstd data: {error}")))?;
            read_exactly(decoder, size)
        }
        _ => Err(Error::new(ErrorKind::Unsupported, "compressed in a way that this build cannot read")),
    }
}

/// Reads `size` bytes, which the caller has checked against the memory limit. The vector grows with the bytes that
/// arrive, so a header that lies about the size costs nothing.
fn read_exactly(reader: impl Read, size: u64) -> Result<Vec<u8>> {
    let corrupt = |why: String| Error::new(ErrorKind::Corrupt, why);
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or(0));
    reader
        .take(size)
        .read_to_end(&mut bytes)
        .map_err(|error| corrupt(format!("bad compressed data: {error}")))?;
    if bytes.len() as u64 != size {
        return Err(corrupt(format!("decompresses to {} bytes instead of {size}", bytes.len())));
    }
    Ok(bytes)
}

/// Returns whether `file` contains (full or skeleton) DWARF of its own.
pub(crate) fn has_debug_info(file: &Elf<'_>) -> bool {
    file.section_by_name(".debug_info").is_some_and(|section| {
        // A stripped binary may keep the header of a section that only its debug file contains.
        section.size() > 0 && section.file_range().is_some_and(|(_, size)| size > 0)
    })
}

/// A loaded part of the file: which file offsets are mapped to which addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) memory_size: u64,
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) executable: bool,
}

/// Returns the loadable segments (`object` lists no others).
pub(crate) fn segments(file: &Elf<'_>) -> Vec<Segment> {
    file.segments()
        .map(|segment| {
            let (offset, file_size) = segment.file_range();
            Segment {
                address: segment.address(),
                memory_size: segment.size(),
                offset,
                file_size,
                executable: segment.permissions().executable(),
            }
        })
        .collect()
}
