//! A folder on the local disk as the store of one collector.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flamelet_profile::{Error, Result};

use crate::store::disk::{entries, make_folder, read_file, remove_all, sync_folder, write_synced};
use crate::store::{Listing, Store};

/// A folder with the blocks of one collector. What is being written is in `tmp/` and is renamed when it is whole.
#[derive(Clone, Debug)]
pub(crate) struct BlockFolder {
    path: PathBuf,
}

impl BlockFolder {
    /// A folder to read from.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Opens a folder to write to, for one writer only, and creates it if it does not exist.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        for name in ["blocks", "tmp"] {
            make_folder(&path.join(name))?;
        }
        let folder = Self::new(path);
        for (name, _) in entries(&folder.tmp(""))? {
            remove_all(&folder.tmp(&name));
        }
        Ok(folder)
    }

    /// Returns where a path is while it is being written.
    fn tmp(&self, path: &str) -> PathBuf {
        self.path.join("tmp").join(path.replace('/', "-"))
    }

    /// Waits until the names of a path and of the folders above it are on disk.
    fn sync_above(&self, path: &Path) -> Result<()> {
        let inside = |folder: &&Path| folder.starts_with(&self.path);
        path.ancestors().skip(1).take_while(inside).try_for_each(sync_folder)
    }
}

impl Store for BlockFolder {
    fn list(&self, folder: &str) -> Result<Listing> {
        let mut listing = Listing::default();
        for (name, entry) in entries(&self.path.join(folder))? {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => listing.folders.push(name),
                false => {
                    listing.files.push(name);
                    // A file that was removed meanwhile takes nothing.
                    listing.bytes =
                        listing.bytes.saturating_add(entry.metadata().map_or(0, |file| file.len()));
                }
            }
        }
        Ok(listing)
    }

    fn get(&self, path: &str, most: u64) -> Result<Vec<u8>> {
        read_file(&self.path.join(path), most)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        let (partial, place) = (self.tmp(path), self.path.join(path));
        place.parent().map_or(Ok(()), make_folder)?;
        write_synced(&partial, bytes)?;
        let linked = fs::hard_link(&partial, &place);
        remove_all(&partial);
        match linked {
            Ok(()) => self.sync_above(&place).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::of_file(&place, &error)),
        }
    }

    fn delete(&self, path: &str) -> Result<()> {
        let place = self.path.join(path);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::of_file(&place, &error)),
            _ => Ok(()),
        }
    }

    /// All files appear at once, so that programs that do not look at the last one see all or none.
    fn create_together(&self, folder: &str, files: &[(&str, &[u8])]) -> Result<()> {
        let (partial, place) = (self.tmp(folder), self.path.join(folder));
        remove_all(&partial);
        make_folder(&partial)?;
        for (name, bytes) in files {
            write_synced(&partial.join(name), bytes)?;
        }
        sync_folder(&partial)?;
        place.parent().map_or(Ok(()), make_folder)?;
        fs::rename(&partial, &place).map_err(|error| Error::of_file(&place, &error))?;
        self.sync_above(&place)
    }

    /// All files vanish at once, with folders that are empty then.
    fn delete_together(&self, folder: &str, _: &[&str]) -> Result<()> {
        let (gone, place) = (self.tmp(&format!("gone-{folder}")), self.path.join(folder));
        remove_all(&gone);
        match fs::rename(&place, &gone) {
            Ok(()) => remove_all(&gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::of_file(&place, &error)),
        }
        let above = place.ancestors().skip(1).take(2);
        above.for_each(|folder| drop(fs::remove_dir(folder)));
        Ok(())
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn local(&self, path: &str) -> Option<PathBuf> {
        Some(self.path.join(path))
    }

    fn shown(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::ErrorKind;

    #[test]
    fn a_file_is_created_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("made");
        assert!(store.create("a/b", b"one").expect("created"));
        assert!(!store.create("a/b", b"two").expect("there already"));
        assert_eq!(store.get("a/b", 3).expect("read"), b"one");
        assert_eq!(store.get("a/b", 2).expect_err("too long").kind(), ErrorKind::TooLarge);
        let listing = store.list("a").expect("listed");
        assert_eq!((listing.files, listing.folders), (vec!["b".to_owned()], Vec::new()));
        store.delete("a/b").expect("deleted");
        store.delete("a/b").expect("nothing to delete");
        assert_eq!(store.get("a/b", 3).expect_err("gone").kind(), ErrorKind::NotFound);
        assert_eq!(store.list("nowhere").expect("listed"), Listing::default());
    }

    #[test]
    fn files_appear_and_vanish_together() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = BlockFolder::create(folder.path()).expect("made");
        store.create_together("blocks/s/h/n", &[("x", b"1"), ("y", b"2")]).expect("created");
        assert_eq!(store.list("blocks/s/h/n").expect("listed").files.len(), 2);
        store.delete_together("blocks/s/h/n", &["x", "y"]).expect("deleted");
        store.delete_together("blocks/s/h/n", &["x", "y"]).expect("nothing to delete");
        assert_eq!(store.list("blocks").expect("listed"), Listing::default());
        assert_eq!(store.list("tmp").expect("listed"), Listing::default());
    }
}
