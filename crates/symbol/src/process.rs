//! The mappings of a running process, with build ids; and the vdso.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::buildid::{self, BuildId};
use crate::{Error, ErrorKind, Result};

/// Program headers beyond this many bytes are not read.
const MOST_HEADERS: usize = 1 << 16;
/// The largest note segment, and the largest vdso, to read from memory.
const MOST_MEMORY: u64 = 1 << 20;

/// A process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Process {
    /// This process.
    #[default]
    Own,
    /// The process with this id.
    Id(u32),
}

impl Process {
    fn folder(self) -> String {
        match self {
            Self::Own => "/proc/self".to_owned(),
            Self::Id(id) => format!("/proc/{id}"),
        }
    }
}

/// A part of the address space of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMapping {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub limit: u64,
    /// The offset in the file of the byte at `start`.
    pub offset: u64,
    /// Whether it is executable.
    pub executable: bool,
    /// The file, a name in brackets such as `[vdso]`, or empty for anonymous memory.
    pub path: String,
    /// Whether the file was deleted or replaced since it was mapped.
    pub deleted: bool,
    /// The build id of the file, if it has one.
    pub build_id: Option<BuildId>,
}

/// Returns all mappings of `process`, with the build ids of the executable ones.
pub fn mappings(process: Process) -> Result<Vec<ProcessMapping>> {
    let folder = process.folder();
    let path = format!("{folder}/maps");
    let text = std::fs::read_to_string(&path).map_err(|error| Error::from(error).in_file(path.as_ref()))?;
    let mut mappings = parse_maps(&text)?;
    let memory = File::open(format!("{folder}/mem")).ok();
    let ids: Vec<Option<BuildId>> =
        mappings.iter().map(|mapping| find_build_id(mapping, &mappings, memory.as_ref(), &folder)).collect();
    mappings.iter_mut().zip(ids).for_each(|(mapping, id)| mapping.build_id = id);
    Ok(mappings)
}

/// Returns only the executable mappings, which are the ones that profiles need.
pub fn code_mappings(process: Process) -> Result<Vec<ProcessMapping>> {
    let mut mappings = mappings(process)?;
    mappings.retain(|mapping| mapping.executable);
    Ok(mappings)
}

/// Parses the text of `/proc/PID/maps`, which contains no build ids.
pub fn parse_maps(text: &str) -> Result<Vec<ProcessMapping>> {
    let lines = text.lines().enumerate();
    lines
        .map(|(number, line)| {
            parse_line(line).ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, format!("line {} is not a mapping: {line:?}", number + 1))
            })
        })
        .collect()
}

fn parse_line(line: &str) -> Option<ProcessMapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, limit) = range.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (_device, rest) = rest.split_once(' ')?;
    // The inode number, then blanks up to the path, which may itself contain blanks.
    let path = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let undeleted = path.strip_suffix(" (deleted)");
    Some(ProcessMapping {
        start: u64::from_str_radix(start, 16).ok()?,
        limit: u64::from_str_radix(limit, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        executable: permissions.contains('x'),
        path: undeleted.unwrap_or(path).to_owned(),
        deleted: undeleted.is_some(),
        build_id: None,
    })
}

/// Returns the build id of the file behind `mapping`: from the memory of the process, which contains the code that
/// really runs even after the file was replaced, else from the file.
fn find_build_id(
    mapping: &ProcessMapping,
    all: &[ProcessMapping],
    memory: Option<&File>,
    folder: &str,
) -> Option<BuildId> {
    if !mapping.executable || mapping.path.is_empty() {
        return None;
    }
    let head = all.iter().find(|head| head.path == mapping.path && head.offset == 0)?;
    let in_memory = memory.and_then(|memory| build_id_in_memory(memory, head.start));
    in_memory.or_else(|| {
        let is_file = mapping.path.starts_with('/') && !mapping.deleted;
        let path = format!("{folder}/root{}", mapping.path);
        is_file.then(|| buildid::of_file(Path::new(&path)).ok().flatten()).flatten()
    })
}

/// Finds the note with the build id of the 64-bit ELF image at `start`.
fn build_id_in_memory(memory: &File, start: u64) -> Option<BuildId> {
    let mut header = [0u8; 64];
    read_exact_at(memory, &mut header, start).ok()?;
    let little_64_bit = header.starts_with(b"\x7fELF\x02\x01");
    if !little_64_bit {
        return None;
    }
    let (table, entry_size) = (u64_at(&header, 32)?, u16_at(&header, 54)? as usize);
    let size = entry_size * u16_at(&header, 56)? as usize;
    if entry_size < 56 || size > MOST_HEADERS {
        return None;
    }
    let mut headers = vec![0u8; size];
    read_exact_at(memory, &mut headers, start.checked_add(table)?).ok()?;
    let entries = || headers.chunks_exact(entry_size);
    const LOAD: u32 = 1;
    const NOTE: u32 = 4;
    let first = entries().find(|entry| u32_at(entry, 0) == Some(LOAD))?;
    let bias = start.wrapping_sub(u64_at(first, 16)?.wrapping_sub(u64_at(first, 8)?));
    entries().filter(|entry| u32_at(entry, 0) == Some(NOTE)).find_map(|entry| {
        let (address, size) = (u64_at(entry, 16)?, u64_at(entry, 40)?);
        let mut notes = vec![0u8; usize::try_from(size.min(MOST_MEMORY)).ok()?];
        read_exact_at(memory, &mut notes, bias.wrapping_add(address)).ok()?;
        build_id_in_notes(&notes)
    })
}

/// Uses the file's position, which works on every system; these files are not shared.
fn read_exact_at(mut file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into)
}

pub(crate) fn build_id_in_notes(mut notes: &[u8]) -> Option<BuildId> {
    const GNU_BUILD_ID: u32 = 3;
    while notes.len() >= 12 {
        let (name_size, size) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let kind = u32_at(notes, 8)?;
        let name = notes.get(12..12usize.checked_add(name_size)?)?;
        let start = 12usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let description = notes.get(start..start.checked_add(size)?)?;
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::from_bytes(description);
        }
        notes = notes.get(start.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
    None
}

/// Returns the vdso of this process, an ELF file in memory.
pub fn vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mapping = parse_maps(&maps).ok()?.into_iter().find(|mapping| mapping.path == "[vdso]")?;
    let size = mapping.limit.checked_sub(mapping.start)?.min(MOST_MEMORY);
    let mut bytes = vec![0u8; usize::try_from(size).ok()?];
    read_exact_at(&File::open("/proc/self/mem").ok()?, &mut bytes, mapping.start).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let text = "559a2c400000-559a2c452000 r-xp 00002000 fe:01 1311 /opt/a b/server (deleted)\n\
                    7ffd1a1de000-7ffd1a1e0000 r-xp 00000000 00:00 0                          [vdso]\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n";
        let mappings = parse_maps(text).expect("valid");
        assert_eq!(mappings[0].path, "/opt/a b/server");
        assert!(mappings[0].deleted && mappings[0].executable);
        assert_eq!((mappings[0].start, mappings[0].offset), (0x559a_2c40_0000, 0x2000));
        assert_eq!((mappings[1].path.as_str(), mappings[1].limit), ("[vdso]", 0x7ffd_1a1e_0000));
        assert_eq!((mappings[2].path.as_str(), mappings[2].executable), ("", false));
        assert_eq!(parse_maps("hello\n").expect_err("garbage").kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn this_process_and_its_file_agree_on_the_build_id() {
        let mappings = code_mappings(Process::Own).expect("Linux shows a process its own mappings");
        let exe = std::env::current_exe().expect("known");
        let own = mappings.iter().find(|mapping| Path::new(&mapping.path) == exe).expect("mapped");
        assert_eq!(own.build_id, buildid::of_file(&exe).expect("an ELF file"));
        let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]");
        if let (Some(mapping), Some(bytes)) = (vdso, vdso_bytes()) {
            assert_eq!(mapping.build_id, buildid::of_bytes(&bytes).expect("an ELF file"));
        }
    }

    fn vdso_bytes() -> Option<Vec<u8>> {
        vdso()
    }
}
