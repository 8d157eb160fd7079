//! The memory limits of the control groups this process is in, version 1 and 2.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A control group with a memory limit: the files to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    usage: CString,
    limit: CString,
    stat: CString,
    /// The lines of `stat` with memory that the kernel takes back before it kills.
    reclaimable: [&'static str; 2],
}

/// Returns the control groups that have a limit now, innermost first.
pub(super) fn with_limits() -> Vec<Cgroup> {
    let (Ok(memberships), Ok(mounts)) =
        (std::fs::read_to_string("/proc/self/cgroup"), std::fs::read_to_string("/proc/self/mountinfo"))
    else {
        return Vec::new();
    };
    let folders = folders(&memberships, &mounts);
    folders.iter().filter_map(|(folder, version)| Cgroup::new(folder, *version)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

impl Cgroup {
    fn new(folder: &Path, version: CgroupVersion) -> Option<Self> {
        let (usage, limit, reclaimable) = match version {
            CgroupVersion::One => (
                "memory.usage_in_bytes",
                "memory.limit_in_bytes",
                ["total_inactive_file ", "total_active_file "],
            ),
            CgroupVersion::Two => ("memory.current", "memory.max", ["inactive_file ", "active_file "]),
        };
        let path = |name: &str| CString::new(folder.join(name).as_os_str().as_bytes()).ok();
        let cgroup =
            Self { usage: path(usage)?, limit: path(limit)?, stat: path("memory.stat")?, reclaimable };
        cgroup.limit().is_some().then_some(cgroup)
    }

    /// Returns the limit in bytes; `None` when there is none. Does not allocate.
    pub(super) fn limit(&self) -> Option<u64> {
        // Version 1 has no word for "none"; it uses a number that no machine reaches.
        read_number(&self.limit).filter(|&limit| limit < 1 << 60)
    }

    /// Returns what is charged to the group, including the page cache. Does not allocate.
    pub(super) fn usage(&self) -> Option<u64> {
        read_number(&self.usage)
    }

    /// Returns how much of it is page cache, which the kernel can drop. Does not allocate.
    pub(super) fn reclaimable(&self) -> u64 {
        let mut buffer = [0; 4096];
        let text = read(&self.stat, &mut buffer);
        let lines = text.split(|&byte| byte == b'\n');
        let values = lines.filter_map(|line| {
            self.reclaimable.iter().find_map(|name| line.strip_prefix(name.as_bytes())).and_then(number)
        });
        values.fold(0, u64::saturating_add)
    }
}

/// Returns the folders of the groups, innermost first.
fn folders(memberships: &str, mounts: &str) -> Vec<(PathBuf, CgroupVersion)> {
    let mut folders = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let version = match (id, controllers) {
            ("0", "") => CgroupVersion::Two,
            (_, controllers) if controllers.split(',').any(|name| name == "memory") => CgroupVersion::One,
            _ => continue,
        };
        let Some((root, mount)) = mounts.lines().find_map(|line| mount_of(line, version)) else { continue };
        // In a container the mount may show only a part of the tree, or the path may lie outside it.
        let inside = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let mut innermost = PathBuf::from(mount);
        innermost.extend(inside);
        let upwards = innermost.ancestors().take_while(|folder| folder.starts_with(mount));
        folders.extend(upwards.map(|folder| (folder.to_owned(), version)));
    }
    folders
}

/// Returns the root and the mount point of a hierarchy, if the line of `mountinfo` is one for memory.
fn mount_of(line: &str, version: CgroupVersion) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let fits = match version {
        CgroupVersion::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        CgroupVersion::Two => kind == "cgroup2",
    };
    let mut before = before.split(' ').skip(3);
    let place = (before.next()?, before.next()?);
    fits.then_some(place)
}

fn read_number(path: &CStr) -> Option<u64> {
    let mut buffer = [0; 64];
    number(read(path, &mut buffer))
}

/// Returns the decimal number that `text` starts with.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut value = None;
    for digit in digits {
        let more = u64::from(digit - b'0');
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(more)?);
    }
    value
}

/// Reads the beginning of a file without allocating; returns nothing when it cannot be read.
///
/// The file is opened every time: some programs close descriptors that are kept, and in the child of a fork they
/// refer to the parent's files.
pub(super) fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: a C string, a buffer of the given length, and a descriptor that is closed here.
    let length = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return &[];
        }
        let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        length
    };
    &buffer[..usize::try_from(length).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(found: &[(PathBuf, CgroupVersion)]) -> Vec<(&str, CgroupVersion)> {
        found.iter().map(|(path, version)| (path.to_str().unwrap_or_default(), *version)).collect()
    }

    #[test]
    fn version_two_walks_up_to_the_mount() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(
            named(&folders("0::/system.slice/a.service\n", mounts)),
            [
                ("/sys/fs/cgroup/system.slice/a.service", CgroupVersion::Two),
                ("/sys/fs/cgroup/system.slice", CgroupVersion::Two),
                ("/sys/fs/cgroup", CgroupVersion::Two)
            ]
        );
    }

    #[test]
    fn version_one_in_a_container_without_a_namespace() {
        let mounts = "40 35 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n\
                      41 35 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let memberships = "5:memory:/docker/abc\n4:cpu:/docker/abc\n0::/docker/abc";
        assert_eq!(named(&folders(memberships, mounts)), [("/sys/fs/cgroup/memory", CgroupVersion::One)]);
    }

    #[test]
    fn numbers_and_their_absence() {
        assert_eq!(number(b"1048576\n"), Some(1 << 20));
        assert_eq!(number(b"max\n"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!(number(b""), None);
    }
}
