//! The profiles in a folder and its subfolders, as `flamelet run -o` and services at intervals write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Error;

/// How many folders below the first one are looked into: a service, a tool, a time, and one more.
const DEEPEST: usize = 4;
/// The most files and folders that are looked at.
const MOST_SEEN: usize = 50_000;
/// The most profiles that are listed; older ones are left out.
const MOST_LISTED: usize = 2_000;
/// What `flamelet run` makes of a tool's own file, which is in the same folder.
const CONVERTED: &str = "profile.pb.gz";

/// A file that may be a profile.
pub(crate) struct FoundFile {
    /// Its path below the folder, with `/` between the parts.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    changed: SystemTime,
}

impl FoundFile {
    /// Returns the folder of the service: without the file, and without a folder that is named by a time.
    pub(crate) fn service(&self) -> &str {
        let folder = self.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        match folder.rsplit_once('/').unwrap_or(("", folder)) {
            (service, time) if time.starts_with(|first: char| first.is_ascii_digit()) => service,
            _ => folder,
        }
    }

    /// Returns when the file was written, in milliseconds since 1970.
    pub(crate) fn written_millis(&self) -> u64 {
        let since = self.changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns the regular files that may be profiles, by service and oldest first; the service with the newest profile is
/// last. Links are skipped.
pub(crate) fn files(folder: &Path) -> Result<Vec<FoundFile>, Error> {
    let mut walk = Walk { found: Vec::new(), seen: 0 };
    walk.add(folder, "", 0)
        .map_err(|error| Error::unreadable(format!("cannot list {}: {error}", folder.display())))?;
    let mut found = walk.found;
    found.sort_by(|a, b| (b.changed, &a.name).cmp(&(a.changed, &b.name)));
    found.truncate(MOST_LISTED);
    let mut newest: BTreeMap<String, SystemTime> = BTreeMap::new();
    for file in &found {
        let newest = newest.entry(file.service().to_owned()).or_insert(file.changed);
        *newest = file.changed.max(*newest);
    }
    let key = |file: &FoundFile| {
        let service = file.service();
        (newest.get(service).copied(), service.to_owned(), file.changed, file.name.clone())
    };
    found.sort_by_cached_key(key);
    Ok(found)
}

struct Walk {
    found: Vec<FoundFile>,
    seen: usize,
}

impl Walk {
    /// Adds the files of a folder; `inside` is its name below the first one, with a `/` at its end.
    fn add(&mut self, folder: &Path, inside: &str, depth: usize) -> std::io::Result<()> {
        let first = self.found.len();
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder)? {
            self.seen += 1;
            if self.seen > MOST_SEEN {
                break;
            }
            let entry = entry?;
            let (base, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            // This does not follow links.
            let Ok(about) = entry.metadata() else { continue };
            let name = format!("{inside}{base}");
            if base.starts_with('.') {
                continue;
            }
            if about.is_dir() {
                folders.push((path, name));
            } else if about.is_file() && !is_picture(&path) {
                let changed = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                self.found.push(FoundFile { name, path, bytes: about.len(), changed });
            }
        }
        // The tool's own file is the same profile.
        if depth > 0 && self.found[first..].iter().any(|file| file.path.ends_with(CONVERTED)) {
            let kept = self.found.split_off(first);
            self.found.extend(kept.into_iter().filter(|file| file.path.ends_with(CONVERTED)));
        }
        for (path, name) in folders.into_iter().filter(|_| depth < DEEPEST) {
            // A subfolder that cannot be read is left out.
            let _ = self.add(&path, &format!("{name}/"), depth + 1);
        }
        Ok(())
    }
}

/// Returns whether a file is a picture of a profile, as a service writes next to its profiles at intervals.
fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "svg" || ending == "html" || ending == "png")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn write(folder: &Path, name: &str, age: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(&path, "1").expect("written");
        let file = fs::File::options().write(true).open(path).expect("opened");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
    }

    fn names(folder: &Path) -> Vec<String> {
        files(folder).expect("listed").into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn subfolders_are_listed_by_service_and_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        write(path, "checkout/perf/2026-11-16T10-00-00Z/profile.pb.gz", 50);
        write(path, "checkout/perf/2026-11-16T10-00-00Z/perf.data", 40);
        write(path, "checkout/perf/2026-11-16T11-00-00Z/profile.pb.gz", 10);
        write(path, "billing/cpu-2.pb.gz", 20);
        write(path, "billing/cpu-1.pb.gz", 60);
        write(path, "old.pb.gz", 90);
        write(path, "checkout/.hidden/profile.pb.gz", 1);
        write(path, "a/b/c/d/too-deep-is-not/e.pb.gz", 1);
        assert_eq!(
            names(path),
            [
                "old.pb.gz",
                "billing/cpu-1.pb.gz",
                "billing/cpu-2.pb.gz",
                "checkout/perf/2026-11-16T10-00-00Z/profile.pb.gz",
                "checkout/perf/2026-11-16T11-00-00Z/profile.pb.gz",
            ]
        );
    }

    #[test]
    fn links_are_not_followed() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("another"));
        write(other.path(), "secret.pb.gz", 1);
        std::os::unix::fs::symlink(other.path(), folder.path().join("link")).expect("linked");
        std::os::unix::fs::symlink(other.path().join("secret.pb.gz"), folder.path().join("file"))
            .expect("linked");
        std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).expect("linked");
        assert!(names(folder.path()).is_empty());
    }
}
