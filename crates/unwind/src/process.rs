//! The modules of another process, and the files that they come from.

use crate::elf::Image;
#[cfg(target_os = "linux")]
use crate::error::Result;
#[cfg(target_os = "linux")]
use crate::module::{Module, Modules};
use rustc_hash::FxHashMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
impl Modules {
    /// Returns the modules of the process `pid`, from its memory map and the files named there (as that process sees
    /// them). Files that cannot be read or are not ELF become modules without a table.
    pub fn of_process(pid: u32, cache: &mut ImageCache) -> Result<Self> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mut modules = Self::new();
        for mapping in maps.lines().filter_map(Mapping::parse).filter(|mapping| mapping.is_executable) {
            if mapping.name == "[vdso]" {
                modules.insert(vdso_at(&mapping));
                continue;
            }
            // Through the process' own root, so that files in containers and deleted ones are found.
            let by_range = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
            let by_root = format!("/proc/{pid}/root{}", mapping.name);
            let image = [by_range, by_root].iter().find_map(|path| cache.image(Path::new(path)));
            let module = image.and_then(|image| {
                image.module(mapping.start, mapping.end, mapping.file_offset, mapping.name)
            });
            modules.insert(module.unwrap_or_else(|| mapping.without_table()));
        }
        Ok(modules)
    }
}

/// The vdso is the same code in every process, so this process' copy stands for it.
#[cfg(target_os = "linux")]
fn vdso_at(mapping: &Mapping<'_>) -> Module {
    match crate::live::vdso() {
        Some(vdso) => Module {
            start: mapping.start,
            end: mapping.end,
            bias: mapping.start.wrapping_sub(vdso.start.wrapping_sub(vdso.bias)),
            ..vdso
        },
        None => mapping.without_table(),
    }
}

/// A line of `/proc/PID/maps`.
#[cfg(target_os = "linux")]
struct Mapping<'a> {
    start: u64,
    end: u64,
    is_executable: bool,
    file_offset: u64,
    name: &'a str,
}

#[cfg(target_os = "linux")]
impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let file_offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let name = fields.nth(2).unwrap_or("").trim();
        Some(Self {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            is_executable: permissions.contains('x'),
            file_offset,
            name: name.strip_suffix(" (deleted)").unwrap_or(name),
        })
    }

    fn without_table(&self) -> Module {
        Module {
            start: self.start,
            end: self.end,
            file_offset: self.file_offset,
            bias: self.start.wrapping_sub(self.file_offset),
            name: self.name.into(),
            build_id: [].into(),
            table: None,
        }
    }
}

/// Images by file, so that each file's table is made once however many processes map it.
#[derive(Debug, Default)]
pub struct ImageCache {
    images: FxHashMap<ImageKey, Option<Arc<Image>>>,
}

/// A file that was replaced under the same name is another file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ImageKey {
    path: PathBuf,
    length: u64,
    modified: Option<std::time::SystemTime>,
}

impl ImageCache {
    /// Makes an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the image of the file at `path`; `None` when it cannot be read or is not ELF (which is remembered
    /// too).
    pub fn image(&mut self, path: &Path) -> Option<Arc<Image>> {
        // Opened first and checked afterwards, because the name may mean another file by then. A pipe must not block
        // this.
        let file = open_without_waiting(path).ok()?;
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        let key = ImageKey { path: path.into(), length: metadata.len(), modified: metadata.modified().ok() };
        let read = || Image::of_file(&file).ok().map(Arc::new);
        self.images.entry(key).or_insert_with(read).clone()
    }
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    File::open(path)
}
