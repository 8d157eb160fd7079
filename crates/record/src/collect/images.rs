//! The files from which processes run code. They are found even if they were deleted, replaced, or are in a
//! container, and are checked by their build ids.

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flamelet_profile::open_regular;
use flamelet_unwind::{Image, Module, Table};
use rustc_hash::FxHashMap;

use crate::RecordOptions;
use crate::sys::memory::ProcessMemory;

/// A part of a file that a process mapped executable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedImage<'a> {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) name: &'a str,
    pub(crate) build_id: Option<&'a [u8]>,
    /// If set, another file may have the name by now.
    pub(crate) is_deleted: bool,
}

/// How the kernel's records name memory that is no file.
pub(crate) const ANONYMOUS: &str = "//anon";

/// The most files that are kept open.
const MOST_FILES: usize = 1024;

/// Images by their identity, so that each is read once, no matter how many processes run it.
#[derive(Default)]
pub(crate) struct Images {
    by_build_id: FxHashMap<Box<[u8]>, Arc<Image>>,
    by_file: FxHashMap<FileKey, Option<Arc<Image>>>,
    vdso: Option<Option<Arc<Image>>>,
    /// Whether a program, not only a library, has a frame that no dump can hold.
    has_huge_frames: bool,
    /// Kept open so that symbols can be read from them even if their names no longer lead to them.
    files: FxHashMap<(String, Box<[u8]>), File>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileKey {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// Returns whether the process was started from the file of this mapping.
fn is_program(mapped: &MappedImage<'_>) -> bool {
    let target = std::fs::read_link(format!("/proc/{}/exe", mapped.pid)).unwrap_or_default();
    target.to_str().is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == mapped.name)
}

/// Returns the link to the program that the process runs, if that is the deleted file of this mapping.
fn deleted_program(mapped: &MappedImage<'_>) -> Option<PathBuf> {
    let link = PathBuf::from(format!("/proc/{}/exe", mapped.pid));
    let target = std::fs::read_link(&link).ok()?;
    let name = target.to_str()?.strip_suffix(" (deleted)")?;
    (name == mapped.name).then_some(link)
}

/// Returns the table of code that the process has generated, if it is of a known kind. Its instructions must be
/// complete before they are mapped executable.
fn table_of_generated(mapped: &MappedImage<'_>) -> Option<Arc<Table>> {
    const GLANCE: u64 = 32;
    const MOST: u64 = 4 << 20;
    let memory = ProcessMemory::open(mapped.pid).ok()?;
    let read = |length: u64| {
        let mut code = vec![0; length as usize];
        let length = memory.read(mapped.start, &mut code).ok()?;
        code.truncate(length);
        Table::of_trampolines(&code)
    };
    // Nearly all generated code is of another kind, and there may be much of it.
    read(GLANCE)?;
    read((mapped.end - mapped.start).min(MOST)).map(Arc::new)
}

/// Returns whether the image has a frame that no dump can hold.
fn has_huge_frame(image: &Image) -> bool {
    image.table().is_some_and(|table| table.largest_frame() > u64::from(RecordOptions::MAX_DUMP))
}

impl Images {
    /// Reads a program before it runs, so that its first samples need not wait for its table.
    pub(crate) fn learn(&mut self, program: &Path) {
        let image = open_regular(program).ok().and_then(|file| self.read(&file));
        self.has_huge_frames |= image.is_some_and(|image| has_huge_frame(&image));
    }

    /// Returns the module for a mapping. A file that cannot be read or is not ELF becomes a module without a table.
    pub(crate) fn module(&mut self, mapped: &MappedImage<'_>) -> Module {
        let image = match mapped.name {
            "[vdso]" => self.vdso(),
            name if name.starts_with('/') && !name.starts_with("//") => self.file(mapped),
            _ => None,
        };
        if !self.has_huge_frames && image.as_deref().is_some_and(has_huge_frame) {
            self.has_huge_frames = is_program(mapped);
        }
        let module =
            image.and_then(|image| image.module(mapped.start, mapped.end, mapped.offset, mapped.name));
        module.unwrap_or_else(|| {
            let table = if mapped.name == ANONYMOUS { table_of_generated(mapped) } else { None };
            let file_offset = if table.is_some() { 0 } else { mapped.offset };
            Module {
                start: mapped.start,
                end: mapped.end,
                file_offset,
                bias: mapped.start.wrapping_sub(file_offset),
                name: mapped.name.into(),
                build_id: mapped.build_id.unwrap_or_default().into(),
                table,
            }
        })
    }

    /// Returns whether a program has a frame that no dump can hold.
    pub(crate) fn has_huge_frames(&self) -> bool {
        self.has_huge_frames
    }

    /// Returns where the symbols of a file can be read if its name does not lead to it (any more). The path is valid
    /// in this process, for as long as this value lives.
    pub(crate) fn moved_file(&self, name: &str, build_id: &[u8]) -> Option<PathBuf> {
        let file = self.files.get(&(name.to_owned(), build_id.into()))?;
        let identity = |file: Metadata| (file.dev(), file.ino());
        let named = std::fs::metadata(name).map(identity).ok();
        let is_moved = named.is_none() || named != file.metadata().map(identity).ok();
        is_moved.then(|| format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    fn vdso(&mut self) -> Option<Arc<Image>> {
        let read = || Image::parse(&flamelet_symbol::process::vdso()?).ok().map(Arc::new);
        self.vdso.get_or_insert_with(read).clone()
    }

    fn file(&mut self, mapped: &MappedImage<'_>) -> Option<Arc<Image>> {
        if let Some(known) = mapped.build_id.and_then(|id| self.by_build_id.get(id)) {
            return Some(known.clone());
        }
        let plain = PathBuf::from(mapped.name);
        let in_root = PathBuf::from(format!("/proc/{}/root{}", mapped.pid, mapped.name));
        let exact =
            PathBuf::from(format!("/proc/{}/map_files/{:x}-{:x}", mapped.pid, mapped.start, mapped.end));
        let candidates = match mapped.is_deleted {
            // Only root may open `map_files`; a process' own program has another link, which its user may open.
            true => std::iter::once(exact).chain(deleted_program(mapped)).collect(),
            false => vec![in_root, plain, exact],
        };
        let (image, file) = candidates.into_iter().find_map(|path| {
            // The target's owner may put anything there at any time.
            let file = open_regular(&path).ok()?;
            let image = self.read(&file)?;
            let is_right = mapped.build_id.is_none_or(|id| id == image.build_id());
            is_right.then_some((image, file))
        })?;
        let id: Box<[u8]> = image.build_id().into();
        if self.files.len() < MOST_FILES {
            self.files.insert((mapped.name.to_owned(), id.clone()), file);
        }
        if !id.is_empty() {
            self.by_build_id.insert(id, image.clone());
        }
        Some(image)
    }

    fn read(&mut self, file: &File) -> Option<Arc<Image>> {
        let metadata = file.metadata().ok()?;
        let key = FileKey {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        };
        self.by_file.entry(key).or_insert_with(|| Image::of_file(file).ok().map(Arc::new)).clone()
    }
}
