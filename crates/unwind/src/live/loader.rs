//! What the dynamic loader has loaded into this process.

use crate::arch::Architecture;
use crate::eh_frame;
use crate::elf::{self, PF_R, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, Segment};
use crate::error::Result;
use crate::module::{Module, Modules};
use crate::table::Table;
use std::ffi::CStr;
use std::sync::Arc;

/// How many libraries were loaded and unloaded so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    added: u64,
    removed: u64,
}

/// Returns the current generation, which changes whenever a library is loaded or unloaded.
pub(super) fn generation() -> Generation {
    let mut generation = Generation { added: 0, removed: 0 };
    iterate(&mut |info| {
        generation = Generation { added: info.dlpi_adds, removed: info.dlpi_subs };
        false
    });
    generation
}

/// Returns all loaded modules, with new tables.
pub(crate) fn loaded_modules() -> Result<Modules> {
    reload(&Modules::new())
}

/// Returns all loaded modules; those in `known` keep their tables.
pub(super) fn reload(known: &Modules) -> Result<Modules> {
    let mut loaded = Vec::new();
    iterate(&mut |info| {
        loaded.extend(Loaded::copy(info, known));
        true
    });
    let mut modules = Modules::new();
    for module in loaded {
        module.place(&mut modules);
    }
    modules.remember_rules(true);
    Ok(modules)
}

/// What is copied of a module while the loader's lock is held: the module might be unloaded right after.
struct Loaded {
    bias: u64,
    name: String,
    segments: Vec<Segment>,
    build_id: Arc<[u8]>,
    unwind: Unwind,
}

enum Unwind {
    Known(Option<Arc<Table>>),
    Section { address: u64, bytes: Vec<u8> },
}

impl Loaded {
    fn copy(info: &libc::dl_phdr_info, known: &Modules) -> Option<Self> {
        if info.dlpi_phdr.is_null() {
            return None;
        }
        let headers = info.dlpi_phdr.cast::<[u8; elf::SEGMENT_SIZE]>();
        // SAFETY: the loader says that `dlpi_phnum` program headers lie there while its lock is held, that is while
        // this runs; as bytes they have no alignment, and nothing writes to them.
        let headers = unsafe { std::slice::from_raw_parts(headers, usize::from(info.dlpi_phnum)) };
        let segments: Vec<Segment> = headers.iter().map(elf::segment).collect();
        let bias = info.dlpi_addr;
        let memory = Mapped { bias, segments: &segments };
        let notes = segments.iter().filter(|segment| segment.kind == PT_NOTE);
        let build_id = notes
            .into_iter()
            .find_map(|notes| elf::build_id(memory.bytes(notes.address)?.get(..notes.memory_size as usize)?));
        let build_id: Arc<[u8]> = build_id.unwrap_or_default().into();
        let text = segments.iter().find(|segment| segment.is_text())?;
        let at = known.find(bias.wrapping_add(text.address));
        let unwind = match at.filter(|old| old.bias == bias && !old.build_id.is_empty()) {
            Some(old) if old.build_id == build_id => Unwind::Known(old.table.clone()),
            _ => memory.eh_frame().unwrap_or(Unwind::Known(None)),
        };
        Some(Self { bias, name: name(info), build_id, unwind, segments })
    }

    fn place(self, modules: &mut Modules) {
        let table = match self.unwind {
            Unwind::Known(table) => table,
            Unwind::Section { address, bytes } => {
                let text = elf::text_ranges(&self.segments);
                eh_frame::table(Architecture::NATIVE, &bytes, address, &text).map(Arc::new)
            }
        };
        let name: Arc<str> = self.name.into();
        for segment in self.segments.iter().filter(|segment| segment.is_text()) {
            let into_page = segment.address & 0xfff;
            let start = self.bias.wrapping_add(segment.address - into_page);
            let length = (segment.memory_size + into_page).next_multiple_of(0x1000);
            modules.insert(Module {
                start,
                end: start.saturating_add(length),
                file_offset: segment.offset.saturating_sub(into_page),
                bias: self.bias,
                name: name.clone(),
                build_id: self.build_id.clone(),
                table: table.clone(),
            });
        }
    }
}

/// The memory of a module that the loader keeps mapped while its lock is held.
struct Mapped<'a> {
    bias: u64,
    segments: &'a [Segment],
}

impl<'a> Mapped<'a> {
    /// Returns what the module has from `address` to the end of the segment there.
    fn bytes(&self, address: u64) -> Option<&'a [u8]> {
        let inside = |segment: &&Segment| {
            segment.kind == PT_LOAD
                && segment.flags & PF_R != 0
                && (segment.address..segment.address.saturating_add(segment.file_size)).contains(&address)
        };
        let segment = self.segments.iter().find(inside)?;
        let length = segment.file_size - (address - segment.address);
        let start = self.bias.wrapping_add(address) as *const u8;
        // SAFETY: the loader mapped `file_size` bytes of this segment for reading (PF_R), or the program would not
        // run, and keeps them while its lock is held, that is while `Loaded::copy` runs, which keeps no reference.
        Some(unsafe { std::slice::from_raw_parts(start, length as usize) })
    }

    /// Returns a copy of `.eh_frame`.
    fn eh_frame(&self) -> Option<Unwind> {
        let header = self.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        let address = elf::eh_frame_address(self.bytes(header.address)?, header.address)?;
        let bytes = self.bytes(address)?;
        let bytes = bytes[..eh_frame::section_length(bytes)].to_vec();
        Some(Unwind::Section { address, bytes })
    }
}

/// Returns the file of a module: the loader leaves the program itself without a name.
fn name(info: &libc::dl_phdr_info) -> String {
    let name = if info.dlpi_name.is_null() {
        Default::default()
    } else {
        // SAFETY: the loader's name is a C string, kept while its lock is held; it is copied before that ends.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy()
    };
    match &*name {
        "" => std::env::current_exe().map_or_else(|_| "[exe]".into(), |path| path.display().to_string()),
        "linux-vdso.so.1" | "linux-gate.so.1" => "[vdso]".into(),
        name => name.into(),
    }
}

/// Calls `each` for the loaded modules, under the loader's lock, until it returns `false`.
fn iterate(each: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn callback(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `data` is what was given to `dl_iterate_phdr` below: `each`, which outlives that call and is used
        // by nothing else meanwhile. `info` is the loader's, valid until this returns.
        let (each, info) =
            unsafe { (&mut *data.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>(), &*info) };
        libc::c_int::from(!each(info))
    }
    let mut each = each;
    // SAFETY: `callback` has the type that the loader calls, on this thread, before this returns; it is given
    // `each`, as it expects. (A panic in it would end the process: it may not pass through C.)
    unsafe {
        libc::dl_iterate_phdr(Some(callback), (&raw mut each).cast());
    }
}
