//! The binaries that a recording names.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flamelet_profile::budget::{ALLOCATION, hash_entry};
use flamelet_profile::{Budget, open_below, open_regular};
use flamelet_unwind::{Image, Table};
use rustc_hash::FxHashMap as HashMap;

use crate::FormatOptions;

/// What a file costs in addition to its name and its table.
const IMAGE: usize =
    hash_entry(size_of::<(String, Option<Arc<Image>>)>()) + size_of::<Image>() + 2 * ALLOCATION;

/// Images by file name, so that each is read once however many processes map it.
#[derive(Default)]
pub(super) struct Images {
    by_name: HashMap<String, Option<Arc<Image>>>,
    /// The folders to which files are confined.
    only_below: Option<Vec<PathBuf>>,
}

impl Images {
    pub(super) fn new(options: &FormatOptions) -> Self {
        Self { only_below: options.only_below.clone(), ..Self::default() }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        match &self.only_below {
            Some(folders) => open_below(path, folders),
            None => open_regular(path),
        }
    }

    /// Returns the image of the file `name`; `None` when it cannot be read, is not ELF, or there is no room for it.
    pub(super) fn image(&mut self, name: &str, budget: &Budget) -> Option<Arc<Image>> {
        if let Some(known) = self.by_name.get(name) {
            return known.clone();
        }
        if !budget.has_room(IMAGE + name.len()) {
            return None;
        }
        let image = self.open(Path::new(name)).ok().and_then(|file| Image::of_file(&file).ok());
        let size = |image: &Image| image.table().map_or(0, |table| Table::byte_size(table));
        let image = image.filter(|image| budget.has_room(size(image))).map(Arc::new);
        self.by_name.insert(name.to_owned(), image.clone());
        image
    }
}
