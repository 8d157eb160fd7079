//! The mapping `OTEL_CTX`, by the protocol of OTEP 4719.
#![allow(unsafe_code, reason = "maps memory that other processes read")]

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use flamelet_unwind::fork::PerProcess;

use crate::own_threads::unseen;

const NAME: &std::ffi::CStr = c"OTEL_CTX";
const VERSION: u32 = 2;

/// What the mapping begins with, in the order that readers expect.
#[repr(C)]
struct ContextHeader {
    signature: [u8; 8],
    version: u32,
    payload_size: AtomicU32,
    /// When the context was published, on the clock that goes on while the machine sleeps; 0 while it changes.
    published_at: AtomicU64,
    /// The address of the payload in this process.
    payload: AtomicU64,
}

struct PublishedContext {
    header: &'static ContextHeader,
    /// The payload that the mapping points to, and the one before, which a reader may still be reading.
    payloads: [Vec<u8>; 2],
}

/// The child of a fork has none: the mapping is not inherited.
static PUBLISHED: PerProcess<Mutex<Option<PublishedContext>>> = PerProcess::new();

/// Publishes a payload, in place of the one before.
pub(super) fn publish(payload: Vec<u8>) -> io::Result<()> {
    let published = PUBLISHED.get(|_| Mutex::new(None));
    let mut published = unseen(|| published.lock()).unwrap_or_else(PoisonError::into_inner);
    match &mut *published {
        Some(published) => published.update(payload),
        none => *none = Some(PublishedContext::new(payload)?),
    }
    Ok(())
}

impl PublishedContext {
    fn new(payload: Vec<u8>) -> io::Result<Self> {
        let size = payload_size(&payload)?;
        let (address, is_named) = map()?;
        let header = ContextHeader {
            signature: *b"OTEL_CTX",
            version: VERSION,
            payload_size: AtomicU32::new(size),
            published_at: AtomicU64::new(0),
            payload: AtomicU64::new(payload.as_ptr() as u64),
        };
        // SAFETY: a new mapping, which is large enough, aligned and writable, and unmapped only below, with no use after it.
        let header = unsafe {
            address.write(header);
            &*address
        };
        fence(Ordering::SeqCst);
        header.published_at.store(now(), Ordering::SeqCst);
        let has_name = set_name(header);
        if !is_named && !has_name {
            header.published_at.store(0, Ordering::SeqCst);
            unmap(address);
            return Err(io::Error::other(
                "readers could not find it: neither memfd_create nor PR_SET_VMA works",
            ));
        }
        Ok(Self { header, payloads: [payload, Vec::new()] })
    }

    fn update(&mut self, payload: Vec<u8>) {
        let Ok(size) = payload_size(&payload) else { return };
        let header = self.header;
        let before = header.published_at.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        header.payload.store(payload.as_ptr() as u64, Ordering::SeqCst);
        header.payload_size.store(size, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        header.published_at.store(now().max(before + 1), Ordering::SeqCst);
        set_name(header);
        self.payloads.swap(0, 1);
        self.payloads[0] = payload;
    }
}

fn payload_size(payload: &[u8]) -> io::Result<u32> {
    u32::try_from(payload.len()).map_err(|_| io::Error::other("the attributes are too long"))
}

/// Makes the mapping; returns its address, and whether `/proc/PID/maps` shows the name of its file.
fn map() -> io::Result<(*mut ContextHeader, bool)> {
    let file = memory_file();
    // SAFETY: a new mapping of a file of this length, or of no file.
    let address = unsafe {
        let flags = libc::MAP_PRIVATE | if file.is_some() { 0 } else { libc::MAP_ANONYMOUS };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let descriptor = file.unwrap_or(-1);
        let address = libc::mmap(std::ptr::null_mut(), LENGTH, protection, flags, descriptor, 0);
        // SAFETY of the close: the file is this function's own.
        file.map(|file| libc::close(file));
        address
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice about the new mapping: children are not to have it.
    if unsafe { libc::madvise(address, LENGTH, libc::MADV_DONTFORK) } != 0 {
        let error = io::Error::last_os_error();
        unmap(address.cast());
        return Err(error);
    }
    Ok((address.cast(), file.is_some()))
}

fn unmap(address: *mut ContextHeader) {
    // SAFETY: the mapping that `map` made, which nothing uses from now on.
    unsafe { libc::munmap(address.cast(), LENGTH) };
}

/// Large enough for the header; the kernel rounds it up to a page.
const LENGTH: usize = size_of::<ContextHeader>();

/// Makes a file in memory of this name and length. `None` where that is forbidden.
fn memory_file() -> Option<i32> {
    if !may_write_files() {
        return None;
    }
    let usual = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: makes a file; its name ends with a zero.
    let made = |flags| unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    let file = [usual | libc::MFD_NOEXEC_SEAL, usual]
        .map(Some)
        .into_iter()
        .flatten()
        .map(made)
        .find(|&file| file >= 0)?;
    // SAFETY: sets the length of the new file.
    if unsafe { libc::ftruncate(file, LENGTH as libc::off_t) } == 0 {
        return Some(file);
    }
    // SAFETY: the file is this function's own.
    unsafe { libc::close(file) };
    None
}

/// Returns whether a file may have this length: where it may not, trying it ends the process by a signal.
fn may_write_files() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to the live value that it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    known && limit.rlim_cur >= LENGTH as libc::rlim_t
}

/// Names the mapping, where the kernel can; readers may also watch for this call.
fn set_name(header: &ContextHeader) -> bool {
    let (address, name) = (std::ptr::from_ref(header) as libc::c_ulong, NAME.as_ptr());
    // SAFETY: names a mapping of this process; the name ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, address, LENGTH, name) == 0 }
}

fn now() -> u64 {
    crate::clock::read(libc::CLOCK_BOOTTIME).max(1)
}
