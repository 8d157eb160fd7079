//! `prof.dump`: requests a dump and reads it. (`flamelet-formats` reads such files for the command, with the mapped
//! libraries named in them; this module reads dumps of its own process.)

use super::control::Control;
use super::refused;
use crate::heap::form::{HEAP_TYPES, describe};
use crate::heap::interval::OBJECT;
use crate::heap::interval::Weight;
use crate::{Error, ErrorKind, Result};
use flamelet_profile::{LocationId, Profile, ProfileBuilder};
use flamelet_unwind::{Module, live};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Returns the text of a dump.
pub(super) fn text(control: Control) -> Result<String> {
    let in_memory = memory_file().ok().and_then(|mut file| {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        dump_to(control, &path).ok()?;
        read_all(&mut file).ok()
    });
    match in_memory {
        Some(text) if !text.is_empty() => Ok(text),
        _ => text_by_file_in(control, &std::env::temp_dir()),
    }
}

/// Returns the text of a dump, by way of a file below `folder` that is removed again.
pub(super) fn text_by_file_in(control: Control, folder: &Path) -> Result<String> {
    let denied = |error: &dyn std::fmt::Display| {
        let message = format!(
            "jemalloc's dump needs a file in memory or a writable folder for temporary files (TMPDIR), and could not be \
             written below {}: {error}",
            folder.display()
        );
        Error::new(ErrorKind::Denied, message)
    };
    let own = OwnFolder::make_in(folder).map_err(|error| denied(&error))?;
    let path = own.0.join("dump.heap");
    dump_to(control, &path.display().to_string()).map_err(|error| denied(&error))?;
    File::open(&path).and_then(|mut file| read_all(&mut file)).map_err(|error| denied(&error))
}

/// A new folder that only this user can write to, removed with its contents. jemalloc opens its file by name and
/// would follow a link that another user has put into a folder that everybody can write to.
struct OwnFolder(PathBuf);

impl OwnFolder {
    fn make_in(folder: &Path) -> io::Result<Self> {
        let template = CString::new(folder.join("flamelet-XXXXXX").into_os_string().into_vec())?;
        let mut name = template.into_bytes_with_nul();
        // SAFETY: a C string whose last six letters are replaced in place.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        Ok(Self(PathBuf::from(OsString::from_vec(name))))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn memory_file() -> io::Result<File> {
    // SAFETY: a C string and flags; nothing else owns the descriptor.
    unsafe {
        match libc::memfd_create(c"flamelet-heap".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(File::from_raw_fd(file)),
        }
    }
}

fn dump_to(control: Control, path: &str) -> Result<()> {
    let path = CString::new(path).map_err(|_| refused("the file's name", libc::EINVAL))?;
    control.write(c"prof.dump", path.as_ptr()).map_err(|code| refused("prof.dump", code))
}

fn read_all(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    // The names of mapped files may be any bytes.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Objects and bytes, in use and allocated, as they are in the dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Raw {
    live: (u64, u64),
    allocated: (u64, u64),
}

/// Makes a profile of a dump of this process. With `is_exact`, addresses are already those of calls.
pub(super) fn profile(text: &str, is_exact: bool) -> Result<Profile, String> {
    let (first, rest) = text.split_once('\n').ok_or("it is empty")?;
    let mean = first.strip_prefix("heap_v2/").and_then(|mean| mean.trim().parse::<u64>().ok());
    let mean = mean.ok_or("it does not start with heap_v2")?;
    let mut builder = ProfileBuilder::new(&HEAP_TYPES);
    describe(&mut builder, mean as i64, "inuse_space");
    builder.header_mut().time_nanos = crate::clock::unix_nanos();
    builder.comment(&format!("flamelet: jemalloc dump, one sample per {mean} bytes"));
    let mut lines = rest.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("MAPPED_LIBRARIES") {
            break;
        }
        let Some(addresses) = line.strip_prefix('@') else { continue };
        let total = lines.next().and_then(|line| line.trim_start().strip_prefix("t*: "));
        let raw = total.and_then(counts).ok_or_else(|| format!("a stack without counts: {line}"))?;
        let locations: Vec<LocationId> = addresses
            .split_ascii_whitespace()
            .filter_map(|address| u64::from_str_radix(address.trim_start_matches("0x"), 16).ok())
            .map(|address| {
                location(&mut builder, if is_exact { address } else { address - u64::from(address > 0) })
            })
            .collect();
        let stack = builder.stack(&locations);
        let (allocated, live) = (unbiased(raw.allocated, mean), unbiased(raw.live, mean));
        let values = [allocated.0, allocated.1, live.0, live.1];
        if values != [0; 4] {
            builder.merge_sample(stack, flamelet_profile::LabelSetId::EMPTY, &values);
        }
    }
    builder.comment(&super::comments().unwrap_or_else(|| "flamelet: jemalloc without statistics".into()));
    Ok(builder.finish())
}

fn location(builder: &mut ProfileBuilder, address: u64) -> LocationId {
    let modules = live::modules();
    let mapping = modules.find(address).map(|module| {
        let Module { start, end, file_offset, name, .. } = module;
        builder.file_mapping(*start..*end, *file_offset, name, &module.build_id_hex())
    });
    builder.address(mapping, address)
}

/// `12: 6496 [30: 8000]`
fn counts(text: &str) -> Option<Raw> {
    let (live, rest) = text.split_once('[')?;
    let pair = |text: &str| {
        let (objects, bytes) = text.split_once(':')?;
        Some((objects.trim().parse().ok()?, bytes.trim().parse().ok()?))
    };
    Some(Raw { live: pair(live)?, allocated: pair(rest.split(']').next()?)? })
}

/// jemalloc writes counts so that this, with a stack's mean size, gives its own estimate (its `prof_unbias`).
fn unbiased((objects, bytes): (u64, u64), mean: u64) -> (i64, i64) {
    if objects == 0 || bytes == 0 {
        return (0, 0);
    }
    let size = (bytes as f64 / objects as f64).round() as usize;
    let scale = Weight::of(size, mean).objects as f64 / OBJECT as f64;
    ((objects as f64 * scale).round() as i64, (bytes as f64 * scale).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_with_freed_stacks_and_threads() {
        let text = "heap_v2/1024\n  t*: 5: 5120 [0: 0]\n  t0: 5: 5120 [0: 0]\n\
                    @ 0x1001 0x2001\n  t*: 2: 2000000 [4: 4000000]\n  t0: 2: 2000000 [4: 4000000]\n\
                    @ 0x3001\n  t*: 0: 0 [7: 7000000]\n  t3: 0: 0 [7: 7000000]\n\
                    @ 0x4001\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n@ nothing\n";
        let profile = profile(text, false).expect("a profile");
        let values: Vec<&[i64]> = profile.samples().map(|sample| sample.values).collect();
        assert_eq!(values, [[4, 4_000_000, 2, 2_000_000], [7, 7_000_000, 0, 0]]);
        assert_eq!(profile.locations()[0].address, 0x1000);
        assert_eq!(profile.header.period, 1024);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "heap_v1/5\n", "heap_v2/x\n", "heap_v2/1\n@ 0x1\n", "heap_v2/1\n@ 0x1\n  t*: 1\n"] {
            assert!(profile(text, true).is_err(), "{text:?}");
        }
    }
}
