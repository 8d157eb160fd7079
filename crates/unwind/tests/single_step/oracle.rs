//! The same stack by framehop.

use flamelet_unwind::Registers;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};

use crate::mapped::Mapped;

pub(crate) struct Oracle {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
    trampolines: std::ops::Range<u64>,
}

impl Oracle {
    pub(crate) fn new(pid: u32, code: &[Mapped]) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for mapped in code {
            unwinder.add_module(module(mapped));
        }
        let trampoline = trampoline_of(pid);
        Self { unwinder, cache: CacheX86_64::new(), trampolines: trampoline - 1..trampoline + 9 }
    }

    /// Whether `frame` is the code that returns from a signal handler.
    pub(crate) fn is_trampoline(&self, frame: u64) -> bool {
        self.trampolines.contains(&frame)
    }

    /// Writes the addresses of all frames to `frames`; returns whether the start of the thread was reached.
    pub(crate) fn unwind(&mut self, registers: &Registers, stack: &[u8], frames: &mut Vec<u64>) -> bool {
        let mut read = |address: u64| {
            let offset = address.checked_sub(registers.sp).ok_or(())? as usize;
            let bytes = stack.get(offset..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(u64::from_le_bytes(*bytes))
        };
        let start = UnwindRegsX86_64::new(registers.pc, registers.sp, registers.fp);
        let mut iterator = self.unwinder.iter_frames(registers.pc, start, &mut self.cache, &mut read);
        frames.clear();
        loop {
            match iterator.next() {
                Ok(Some(frame)) => frames.push(frame.address_for_lookup()),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn module(Mapped { name, range, offset, bytes }: &Mapped) -> Module<Vec<u8>> {
    let file = object::File::parse(&**bytes).expect("ELF");
    let in_segment = |segment: &object::Segment<'_, '_>| {
        let (start, size) = segment.file_range();
        (start & !0xfff) <= *offset && *offset < start + size
    };
    let mut segments = file.segments().filter(in_segment).collect::<Vec<_>>();
    segments.sort_by_key(|segment| segment.file_range().0);
    let segment = segments.last().expect("a segment is mapped there");
    let base = range.start - (segment.address() + offset - segment.file_range().0);
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address() + section.size();
        Some((range, section.data().ok()?.to_vec()))
    };
    let (text, eh_frame, hdr) = (section(".text"), section(".eh_frame"), section(".eh_frame_hdr"));
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: text.as_ref().map(|(range, _)| range.clone()),
        text: text.map(|(_, bytes)| bytes),
        got_svma: section(".got").map(|(range, _)| range),
        eh_frame_svma: eh_frame.as_ref().map(|(range, _)| range.clone()),
        eh_frame: eh_frame.map(|(_, bytes)| bytes),
        eh_frame_hdr_svma: hdr.as_ref().map(|(range, _)| range.clone()),
        eh_frame_hdr: hdr.map(|(_, bytes)| bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new(name.clone(), range.clone(), base, info)
}

/// The address of libc's trampoline in the child: this process' own, moved to where the child has libc.
fn trampoline_of(pid: u32) -> u64 {
    // SAFETY: plain C structures, zeroed and filled in; the handler is never called. A raw system call, because
    // libc hides the trampoline.
    let own = unsafe {
        let mut action = [0u64; 4];
        let handler: extern "C" fn(libc::c_int) = never;
        libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t);
        libc::syscall(libc::SYS_rt_sigaction, libc::SIGUSR2, 0, action.as_mut_ptr(), 8);
        action[2]
    };
    let libc_start = |pid: u32| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("its maps can be read");
        let line = maps.lines().find(|line| line.contains("libc.so")).expect("it has libc");
        u64::from_str_radix(line.split('-').next().expect("a range"), 16).expect("hexadecimal")
    };
    own - libc_start(std::process::id()) + libc_start(pid)
}

extern "C" fn never(_: libc::c_int) {}
