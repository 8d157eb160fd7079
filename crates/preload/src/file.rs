//! The files of this process image: the counts, mapped shared, and the modules.
//!
//! No descriptor stays open: programs close descriptors that they do not know, and reuse the numbers. The files are
//! opened by name when they grow, which is rare.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use flamelet_preload_ledger::{
    COUNTS_ENDING, FIRST_FRAME, Header, MAGIC, MODULES_ENDING, NODES_AT, Node, modules, place,
};
use flamelet_unwind::fork::Lock;

use crate::errno::Errno;
use crate::{blocks, map};

/// The header and the nodes after it, in address space that is reserved for as many as there can ever be.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Bytes that are reserved, and how many of them the file is mapped to.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// The name of the files without their extensions; never freed.
static NAME: AtomicPtr<PathBuf> = AtomicPtr::new(ptr::null_mut());
pub(crate) static GROWING: Lock<()> = Lock::new(());

/// A multiple of every page size there is.
const FIRST_LENGTH: usize = 256 << 10;
const LARGEST_STEP: usize = 16 << 20;
/// A line is as long as a path, and a program has a few hundred modules.
const LONGEST_MODULES: u64 = 16 << 20;

/// Returns the header of the counts. Only while recording.
#[inline(always)]
pub(crate) fn header() -> &'static Header {
    // SAFETY: `create` mapped it, and it stays mapped; all its fields are atomics.
    unsafe { &*BASE.load(Ordering::Relaxed).cast::<Header>() }
}

/// Returns a node that was made. Only while recording.
#[inline(always)]
pub(crate) fn node(number: u32) -> &'static Node {
    // SAFETY: every number went through `has_room_for`, which mapped the node; it stays mapped.
    unsafe { &*BASE.load(Ordering::Relaxed).add(NODES_AT).cast::<Node>().add(number as usize) }
}

/// Makes sure that the node with this number is mapped.
#[inline]
pub(crate) fn has_room_for(number: u64) -> bool {
    let end = NODES_AT + (number as usize + 1).saturating_mul(size_of::<Node>());
    end <= MAPPED.load(Ordering::Acquire) || grow(end)
}

#[cold]
fn grow(end: usize) -> bool {
    let _errno = Errno::keep();
    let _held = GROWING.lock();
    let mapped = MAPPED.load(Ordering::Relaxed);
    if end <= mapped {
        return true;
    }
    let length = (mapped * 2).min(mapped + LARGEST_STEP);
    if length > RESERVED.load(Ordering::Relaxed) || end > length {
        return false;
    }
    let opened = name().and_then(|name| place::open(&name.with_extension(COUNTS_ENDING), false).ok());
    let Some(file) = opened.filter(|file| allocate(file, mapped, length).is_ok()) else { return false };
    let base = BASE.load(Ordering::Relaxed);
    // SAFETY: inside what was reserved, after what is already mapped.
    let grown = unsafe { map::file(base.add(mapped), length - mapped, file.as_raw_fd(), mapped) };
    if grown.is_some() {
        MAPPED.store(length, Ordering::Release);
    }
    grown.is_some()
}

/// Makes the files of this process in `folder` and maps the counts.
pub(crate) fn create(folder: &Path, mean: u64) -> io::Result<()> {
    let no_space = || io::Error::from_raw_os_error(libc::ENOMEM);
    let (base, reserved) = reserve().ok_or_else(no_space)?;
    let (name, counts) = create_files(folder)?;
    allocate(&counts, 0, FIRST_LENGTH)?;
    // SAFETY: the start of what was just reserved.
    unsafe { map::file(base, FIRST_LENGTH, counts.as_raw_fd(), 0) }.ok_or_else(no_space)?;
    BASE.store(base, Ordering::Release);
    RESERVED.store(reserved, Ordering::Relaxed);
    MAPPED.store(FIRST_LENGTH, Ordering::Relaxed);
    set_name(&name);
    append_modules(&own_lines());
    begin(header(), mean, u64::from(FIRST_FRAME));
    Ok(())
}

/// In a forked child: leaves the parent's files alone and continues in files of its own, with no nodes and nothing
/// counted. The parent may know many stacks, and most children need few of them.
pub(crate) fn move_to_own() -> io::Result<()> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    let parent = name().ok_or_else(invalid)?;
    let folder = parent.parent().ok_or_else(invalid)?;
    // The recording may be over, and its folder made again by somebody else.
    if !place::is_trusted(folder) {
        return Err(invalid());
    }
    let (name, counts) = create_files(folder)?;
    allocate(&counts, 0, FIRST_LENGTH)?;
    let mean = header().mean.load(Ordering::Relaxed);
    let (base, length) = (BASE.load(Ordering::Relaxed), MAPPED.load(Ordering::Relaxed));
    // SAFETY: in place of the parent's mapping, which no other thread of this child uses.
    unsafe {
        map::file(base, FIRST_LENGTH, counts.as_raw_fd(), 0).ok_or_else(invalid)?;
        map::reserve_again(base.add(FIRST_LENGTH), length - FIRST_LENGTH);
    }
    MAPPED.store(FIRST_LENGTH, Ordering::Relaxed);
    let known = modules_in(&parent.with_extension(MODULES_ENDING)).unwrap_or_default();
    set_name(&name);
    append_modules(&String::from_utf8_lossy(&known));
    begin(header(), mean, u64::from(FIRST_FRAME));
    Ok(())
}

/// Reads the modules that a process of this user has written.
fn modules_in(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    place::open(path, false)?.take(LONGEST_MODULES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds lines to the file with modules.
pub(crate) fn append_modules(lines: &str) {
    let Some(name) = name() else { return };
    let Ok(mut file) = place::open(&name.with_extension(MODULES_ENDING), true) else { return };
    let length = file.metadata().map_or(0, |file| file.len()) + lines.len() as u64;
    if place::check_length(length).is_ok() {
        let _ = file.write_all(lines.as_bytes());
    }
}

/// Reserves address space for all nodes that there can be; less if the program may not have that much.
fn reserve() -> Option<(*mut u8, usize)> {
    let most = NODES_AT + blocks::MOST_NODES * size_of::<Node>();
    let tries = [most, 1 << 30, 128 << 20, 16 << 20];
    tries.into_iter().find_map(|length| Some((map::reserve(length)?, length)))
}

/// Creates the files, named `PID-N`, where N distinguishes images of one process: the name did not exist before.
fn create_files(folder: &Path) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    for number in 0..10_000 {
        let name = folder.join(format!("{pid}-{number}"));
        match place::create(&name.with_extension(COUNTS_ENDING)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let counts = opened?;
                place::create(&name.with_extension(MODULES_ENDING))?;
                return Ok((name, counts));
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}

/// Makes the file longer, with its blocks on the disk: so a full disk is found now, and not by a signal later.
fn allocate(file: &File, from: usize, to: usize) -> io::Result<()> {
    place::check_length(to as u64)?;
    // SAFETY: the descriptor is open.
    let failed =
        unsafe { libc::fallocate(file.as_raw_fd(), 0, from as libc::off_t, (to - from) as libc::off_t) } != 0;
    match failed.then(io::Error::last_os_error) {
        Some(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeroes(file, from, to),
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// For file systems that cannot allocate blocks in advance: writing allocates them.
fn write_zeroes(file: &File, from: usize, to: usize) -> io::Result<()> {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    for at in (from..to).step_by(ZEROES.len()) {
        file.write_all_at(&ZEROES[..ZEROES.len().min(to - at)], at as u64)?;
    }
    Ok(())
}

/// Writes the header; the last word makes the file valid.
fn begin(header: &Header, mean: u64, nodes: u64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    header.pid.store(u64::from(std::process::id()), Ordering::Relaxed);
    header.started_nanos.store(now.as_nanos() as u64, Ordering::Relaxed);
    header.mean.store(mean, Ordering::Relaxed);
    header.nodes.store(nodes, Ordering::Relaxed);
    header.peak_turn.store(1, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}

fn own_lines() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments).trim_end_matches('\0').replace('\0', " ");
    modules::first_lines(&program.to_string_lossy(), &arguments)
}

fn set_name(name: &Path) {
    NAME.store(Box::into_raw(Box::new(name.to_owned())), Ordering::Release);
}

fn name() -> Option<PathBuf> {
    // SAFETY: null, or from a box that is never freed.
    let name = unsafe { NAME.load(Ordering::Acquire).as_ref() }?;
    Some(name.clone())
}
