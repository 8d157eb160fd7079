//! One file that addresses belong to: its located and opened files, and the answers so far.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::address::{MappedAt, Translation};
use crate::dwarf::{SplitFiles, SplitRequest, UnitIndex};
use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::elf::{self, Elf, Segment};
use crate::frame::Frame;
use crate::limits::Limits;
use crate::locate::{Located, Search, WantedBinary};
use crate::names::NameTable;
use crate::symbolize::core::{SymbolParts, mini_debug_info};
use crate::symbolize::options::{ModuleName, SymbolizeOptions};
use crate::{kernel, process};

/// A module, and what is known about it.
pub(super) struct KnownModule {
    source: SymbolSource,
    answers: FxHashMap<u64, Arc<[Frame]>>,
    answer_memory: usize,
    nothing: Arc<[Frame]>,
    /// Warnings for the user, a line each.
    pub(super) warnings: Vec<String>,
    pub(super) last_question: u64,
}

enum SymbolSource {
    Files(Box<Files>),
    Kernel,
    Missing,
}

/// The opened files of a module.
#[derive(Default)]
struct Files {
    binary: Option<Bytes>,
    debug: Option<Bytes>,
    supplement: Option<Bytes>,
    mini: Option<Bytes>,
    segments: Vec<Segment>,
    /// Whether the segments come from the binary itself, whose offsets can be trusted.
    has_real_offsets: bool,
    has_debug_info: bool,
    /// Whether to use only the symbols of the debug file: lines come from the binary or not at all.
    only_symbols: bool,
    index: Option<Arc<UnitIndex>>,
    located: Located,
    wanted_path: PathBuf,
    /// Which of the files that the debug information names may be opened.
    search: Search,
}

impl KnownModule {
    /// Finds and opens the files of `name`.
    pub(super) fn open(name: &ModuleName, options: &SymbolizeOptions) -> Self {
        let mut module = Self {
            source: SymbolSource::Missing,
            answers: FxHashMap::default(),
            answer_memory: 0,
            nothing: Arc::new([]),
            warnings: Vec::new(),
            last_question: 0,
        };
        module.source = module.find(name, options);
        module
    }

    /// Searches for the files again if one of them was written to. Earlier answers stay.
    pub(super) fn keep_up(&mut self, name: &ModuleName, options: &SymbolizeOptions) {
        let has_changed = |file: &Option<Bytes>| file.as_ref().is_some_and(Bytes::has_changed);
        if let SymbolSource::Files(files) = &self.source
            && [&files.binary, &files.debug, &files.supplement].into_iter().any(has_changed)
        {
            self.warnings.clear();
            self.source = self.find(name, options);
        }
    }

    fn find(&mut self, name: &ModuleName, options: &SymbolizeOptions) -> SymbolSource {
        if kernel::is_kernel(&name.path) {
            self.open_kernel(name, options)
        } else if name.path == "[vdso]" {
            self.open_vdso(name)
        } else if is_no_file(&name.path) {
            SymbolSource::Missing
        } else {
            self.open_files(name, options)
        }
    }

    fn open_kernel(&mut self, name: &ModuleName, options: &SymbolizeOptions) -> SymbolSource {
        if options.search.only_below.is_some() {
            return SymbolSource::Missing;
        }
        if kernel::is_another(&name.build_id) {
            self.warnings.push(format!(
                "{}: the profile is from another kernel, so its functions cannot be named",
                name.path
            ));
            return SymbolSource::Missing;
        }
        SymbolSource::Kernel
    }

    fn open_vdso(&mut self, name: &ModuleName) -> SymbolSource {
        let Some(bytes) = process::vdso() else {
            self.warnings.push("[vdso]: this process has no vdso to read symbols from".to_owned());
            return SymbolSource::Missing;
        };
        let own = crate::buildid::of_bytes(&bytes).ok().flatten().map(|id| id.to_string());
        if !name.build_id.is_empty() && own.as_deref() != Some(name.build_id.as_str()) {
            self.warnings.push("[vdso]: the profile is from another kernel".to_owned());
            return SymbolSource::Missing;
        }
        let mut files = Files { binary: Some(Bytes::owned(bytes)), ..Files::default() };
        files.read_headers(Limits::SERVICE);
        SymbolSource::Files(Box::new(files))
    }

    fn open_files(&mut self, name: &ModuleName, options: &SymbolizeOptions) -> SymbolSource {
        let wanted = WantedBinary { path: Path::new(&name.path), build_id: &name.build_id };
        let located = options.search.locate(&wanted);
        self.warnings.extend(located.warnings.iter().cloned());
        let mut open = |path: &Option<PathBuf>| {
            let is_elf =
                |bytes: &Bytes| elf::parse(&Image::new(bytes.clone(), options.limits.memory)).map(drop);
            let bytes = Bytes::open(path.as_deref()?).and_then(|bytes| is_elf(&bytes).map(|()| bytes));
            bytes.map_err(|error| self.warnings.push(error.to_string())).ok()
        };
        let mut files = Files {
            binary: open(&located.binary),
            debug: open(&located.debug),
            supplement: open(&located.supplement),
            only_symbols: options.only_symbols_of_libraries && is_of_a_library(&located, name, options),
            wanted_path: PathBuf::from(&name.path),
            search: options.search.clone(),
            ..Files::default()
        };
        files.located = located;
        if files.binary.is_none() && files.debug.is_none() {
            return SymbolSource::Missing;
        }
        files.read_headers(options.limits);
        if !files.has_debug_info {
            match files.read_mini(options.limits) {
                Ok(mini) => files.mini = mini,
                Err(error) => self.warnings.push(format!("{}: {error}", name.path)),
            }
        }
        SymbolSource::Files(Box::new(files))
    }

    /// Returns the files that the answers come from, the one with debug information first.
    pub(super) fn sources(&self) -> Vec<PathBuf> {
        match &self.source {
            SymbolSource::Files(files) => {
                let located = [&files.located.debug, &files.located.binary];
                located.into_iter().flatten().cloned().collect()
            }
            SymbolSource::Kernel => vec![PathBuf::from(kernel::SYMBOLS)],
            SymbolSource::Missing => Vec::new(),
        }
    }

    /// Returns whether the module has debug information: files, lines and inlined calls.
    pub(super) fn has_debug_info(&self) -> bool {
        matches!(&self.source, SymbolSource::Files(files) if files.has_debug_info)
    }

    /// Returns the frames at each of `addresses` of a process.
    pub(super) fn frames(
        &mut self,
        mapped: MappedAt,
        addresses: &[u64],
        names: &mut NameTable,
        limits: Limits,
    ) -> Vec<Arc<[Frame]>> {
        let translation = match &self.source {
            SymbolSource::Files(files) => Translation::new(mapped, &files.segments, files.has_real_offsets),
            SymbolSource::Kernel | SymbolSource::Missing => Translation::NONE,
        };
        let own: Vec<u64> = addresses.iter().map(|&address| translation.apply(address)).collect();
        let mut unknown: Vec<u64> =
            own.iter().copied().filter(|address| !self.answers.contains_key(address)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            self.learn(&unknown, names, limits);
        }
        own.iter().map(|address| self.answers.get(address).unwrap_or(&self.nothing).clone()).collect()
    }

    fn learn(&mut self, addresses: &[u64], names: &mut NameTable, limits: Limits) {
        let frames = match &mut self.source {
            SymbolSource::Missing => return,
            SymbolSource::Kernel => match kernel::frames(addresses, names) {
                Ok(frames) => frames,
                Err(error) => {
                    self.warn(error.to_string());
                    return;
                }
            },
            SymbolSource::Files(files) => {
                let resolved = files.resolve(addresses, names, limits);
                resolved.warnings.into_iter().for_each(|warning| self.warn(warning));
                resolved.frames
            }
        };
        for (&address, frames) in addresses.iter().zip(frames) {
            self.answer_memory += 48 + frames.len() * size_of::<Frame>();
            self.answers.insert(address, frames);
        }
    }

    fn warn(&mut self, warning: String) {
        const MOST_WARNINGS: usize = 20;
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub(super) fn memory(&self) -> usize {
        let index = match &self.source {
            SymbolSource::Files(files) => files.index.as_ref().map_or(0, |index| index.memory()),
            _ => 0,
        };
        self.answer_memory + index
    }

    pub(super) fn forget_answers(&mut self) {
        self.answers = FxHashMap::default();
        self.answer_memory = 0;
    }

    /// Forgets where the units of the debug information are, which takes a while to find out.
    pub(super) fn forget_index(&mut self) {
        if let SymbolSource::Files(files) = &mut self.source {
            files.index = None;
        }
    }
}

/// Returns whether the debug file comes from the system's folder and does not belong to this program.
fn is_of_a_library(located: &Located, name: &ModuleName, options: &SymbolizeOptions) -> bool {
    let is_below = |debug: &Path| options.search.debug_folders.iter().any(|folder| debug.starts_with(folder));
    let is_program = || std::env::current_exe().is_ok_and(|program| program == Path::new(&name.path));
    located.debug.as_deref().is_some_and(is_below) && !is_program()
}

impl Files {
    fn read_headers(&mut self, limits: Limits) {
        let images = images([&self.binary, &self.debug], limits);
        let [binary, debug] = parsed(&images);
        self.has_real_offsets = binary.is_some();
        self.segments = binary.as_ref().or(debug.as_ref()).map_or(Vec::new(), elf::segments);
        self.has_debug_info = binary.iter().chain(&debug).any(elf::has_debug_info);
    }

    fn read_mini(&self, limits: Limits) -> crate::Result<Option<Bytes>> {
        let Some(binary) = &self.binary else { return Ok(None) };
        let image = Image::new(binary.clone(), limits.memory);
        let unpacked = mini_debug_info(&elf::parse(&image)?, limits)?;
        Ok(unpacked.map(Bytes::owned))
    }

    fn resolve(
        &mut self,
        addresses: &[u64],
        names: &mut NameTable,
        limits: Limits,
    ) -> crate::symbolize::Resolved {
        let images = images([&self.debug, &self.binary, &self.mini, &self.supplement], limits);
        let [debug, binary, mini, supplement] = parsed(&images);
        let separate = if self.only_symbols { &None } else { &debug };
        let with_debug_info =
            [separate, &binary].into_iter().flatten().find(|file| elf::has_debug_info(file));
        let parts = SymbolParts {
            with_debug_info,
            supplement: supplement.as_ref(),
            with_symbols: [&debug, &binary, &mini].into_iter().flatten().collect(),
            go: binary.as_ref(),
        };
        let mut index = self.index.take();
        let resolved = parts.resolve(addresses, &mut index, &*self, names, limits);
        self.index = index;
        resolved
    }

    fn open(&self, path: &Path) -> Option<Bytes> {
        self.search.may_open(path).then(|| Bytes::open(path).ok())?
    }

    /// Returns every folder where a split debug file may be, except the one where the compiler left it.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        let paths = [self.located.debug.as_deref(), self.located.binary.as_deref(), Some(&*self.wanted_path)];
        paths.into_iter().flatten().filter_map(Path::parent)
    }
}

fn images<const N: usize>(files: [&Option<Bytes>; N], limits: Limits) -> [Option<Image<'static>>; N] {
    files.map(|bytes| bytes.clone().map(|bytes| Image::new(bytes, limits.memory)))
}

fn parsed<'d, const N: usize>(images: &'d [Option<Image<'d>>; N]) -> [Option<Elf<'d>>; N] {
    images.each_ref().map(|image| elf::parse(image.as_ref()?).ok())
}

impl SplitFiles for Files {
    fn package(&self) -> Option<Bytes> {
        let paths = [self.located.binary.as_deref(), self.located.debug.as_deref(), Some(&*self.wanted_path)];
        let beside = paths.into_iter().flatten().flat_map(|path| {
            let mut appended = path.as_os_str().to_owned();
            appended.push(".dwp");
            [PathBuf::from(appended), path.with_extension("dwp")]
        });
        beside.filter(|path| path.is_file()).find_map(|path| self.open(&path))
    }

    fn object(&self, request: &SplitRequest) -> Option<Bytes> {
        let compiled = Path::new(&request.directory).join(&request.name);
        if let Some(bytes) = self.open(&compiled) {
            return Some(bytes);
        }
        let name = Path::new(&request.name).file_name()?;
        self.folders().find_map(|folder| {
            let whole = folder.join(&request.name);
            self.open(&whole).or_else(|| self.open(&folder.join(name)))
        })
    }
}

/// Returns whether a mapping of this name is memory without a file: `//anon`, as perf calls it, or `[heap]`.
fn is_no_file(path: &str) -> bool {
    path == "//anon" || path.starts_with('[') && path.ends_with(']')
}
