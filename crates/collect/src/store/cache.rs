//! A bounded cache on the local disk for a store that is far away.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use flamelet_profile::Result;
use flamelet_store::private;
use flate2::Crc;

use crate::series::hash_texts;
use crate::store::disk::{entries, make_named_folder, read_file, write_new};
use crate::store::{Listing, Store};

/// Bytes of the checksum before the content.
const CHECKSUM: usize = 4;

/// A store whose blocks, which never change, are kept on the local disk after they were read, up to a number of bytes.
/// Several processes may use the same folder. A cache that cannot be written or was damaged is a slow one, not an error.
#[derive(Debug)]
pub struct Cached {
    store: Arc<dyn Store>,
    folder: PathBuf,
    most: u64,
    /// Bytes in the folder, about.
    used: AtomicU64,
    /// Files that were written, for their names until they are whole.
    written: AtomicU64,
}

impl Cached {
    /// Keeps at most `most` bytes in `folder`, which is created if it does not exist.
    pub fn new(store: Arc<dyn Store>, folder: &Path, most: u64) -> Self {
        let cached = Self {
            store,
            folder: folder.to_owned(),
            most,
            used: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        let used = cached.files().iter().map(|(_, bytes, _)| bytes).sum();
        cached.used.store(used, Ordering::Relaxed);
        cached
    }

    fn place(&self, path: &str) -> PathBuf {
        let name = hash_texts([self.store.shown(path).as_bytes()].into_iter());
        self.folder.join(format!("{name:032x}"))
    }

    /// Returns a file that was kept, unless it is damaged.
    fn kept(&self, place: &Path, most: u64) -> Option<Vec<u8>> {
        let mut bytes = read_file(place, most.saturating_add(CHECKSUM as u64)).ok()?;
        let content = bytes.split_off(CHECKSUM.min(bytes.len()));
        if bytes != checksum(&content) {
            return None;
        }
        // The least recently used file is removed first.
        let _ = private::open(place).and_then(|file| file.set_modified(SystemTime::now()));
        Some(content)
    }

    fn keep(&self, place: &Path, content: &[u8]) -> Result<()> {
        make_named_folder(&self.folder)?;
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let partial = self.folder.join(format!("{}-{number}.partial", std::process::id()));
        let bytes = [&checksum(content)[..], content].concat();
        write_new(&partial, &bytes)?;
        fs::rename(&partial, place)?;
        let length = bytes.len() as u64;
        if self.used.fetch_add(length, Ordering::Relaxed).saturating_add(length) > self.most {
            self.make_room();
        }
        Ok(())
    }

    /// Removes the least recently used files, a quarter of what is allowed.
    fn make_room(&self) {
        let mut files = self.files();
        files.sort_by_key(|(used, ..)| *used);
        let mut left: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if left <= self.most / 4 * 3 {
                break;
            }
            let _ = fs::remove_file(path);
            left = left.saturating_sub(bytes);
        }
        self.used.store(left, Ordering::Relaxed);
    }

    /// Returns the files, each with when it was used and its length.
    fn files(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let all = entries(&self.folder).unwrap_or_default();
        let files = all.into_iter().filter_map(|(_, entry)| {
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), found.len(), entry.path()))
        });
        files.collect()
    }
}

impl Store for Cached {
    fn list(&self, folder: &str) -> Result<Listing> {
        self.store.list(folder)
    }

    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
        // Those of a tenant are in the tenant's folder.
        if !path.starts_with("blocks/") && !path.contains("/blocks/") {
            return self.store.get(path, most);
        }
        let place = self.place(path);
        if let Some(content) = self.kept(&place, most) {
            return Ok(content);
        }
        let content = self.store.get(path, most)?;
        let _ = self.keep(&place, &content);
        Ok(content)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        self.store.create(path, bytes)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let _ = fs::remove_file(self.place(path));
        self.store.delete(path)
    }

    fn time(&self) -> Result<Option<i64>> {
        self.store.time()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn shown(&self, path: &str) -> String {
        self.store.shown(path)
    }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM] {
    let mut crc = Crc::new();
    crc.update(content);
    crc.sum().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::BlockFolder;

    fn cached(most: u64) -> (tempfile::TempDir, Arc<BlockFolder>, Cached) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(BlockFolder::create(&folder.path().join("store")).expect("made"));
        let cached = Cached::new(store.clone(), &folder.path().join("cache"), most);
        (folder, store, cached)
    }

    #[test]
    fn what_was_read_once_is_not_read_again() {
        let (folder, store, cached) = cached(1000);
        store.create("blocks/a", b"content").expect("written");
        store.create("claims/a", b"claim").expect("written");
        for path in ["blocks/a", "claims/a"] {
            cached.get(path, 100).expect("read");
            store.delete(path).expect("deleted");
        }
        assert_eq!(cached.get("blocks/a", 100).expect("kept"), b"content");
        assert!(cached.get("blocks/a", 3).is_err(), "it is longer");
        assert!(cached.get("claims/a", 100).is_err(), "what may change is not kept");
        let damaged = cached.place("blocks/a");
        for bytes in [&b""[..], b"abc", b"abcdcontent"] {
            std::fs::write(&damaged, bytes).expect("written");
            assert!(cached.get("blocks/a", 100).is_err(), "a damaged file is read from the store");
        }
        // A cache that cannot be written.
        std::fs::remove_dir_all(folder.path().join("cache")).expect("removed");
        std::fs::write(folder.path().join("cache"), b"").expect("written");
        store.create("blocks/b", b"content").expect("written");
        assert_eq!(cached.get("blocks/b", 100).expect("read"), b"content");
    }

    #[test]
    fn the_cache_is_bounded() {
        let (folder, store, cached) = cached(1000);
        for number in 0..50 {
            let path = format!("blocks/{number}");
            store.create(&path, &[7; 96]).expect("written");
            cached.get(&path, 100).expect("read");
            let bytes: u64 = cached.files().iter().map(|(_, bytes, _)| bytes).sum();
            assert!(bytes <= 1000, "{bytes} bytes");
        }
        // Another process finds what is there.
        let again = Cached::new(store, &folder.path().join("cache"), 1000);
        assert!(again.used.load(Ordering::Relaxed) >= 400);
    }
}
