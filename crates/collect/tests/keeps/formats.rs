//! Folders of earlier versions are read, and written to.

use std::path::Path;

use crate::support::{HOUR, Site, T0, cpu, offered};

/// Returns a copy of a folder of the first format, as a killed collector of that version left it: a merged block with
/// the profiles 0 and 1, and a log with 2 and 3. Profile number `n` has `10^n` samples.
fn first_format() -> Site {
    let site = Site::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/collect-format-1");
    copy(&from, site.path());
    site
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let place = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &place),
            false => drop(std::fs::copy(entry.path(), place).expect("copied")),
        }
    }
}

#[test]
fn a_folder_of_the_first_format_is_read_and_continued() {
    let site = first_format();
    let total = || site.total("shop", T0, T0 + HOUR);
    assert_eq!(total(), Some((1111, 11110)), "as it is");
    let collector = site.open();
    assert_eq!(total(), Some((1111, 11110)), "after its log became blocks, which were merged");
    let manifests = site.files().into_iter().filter(|name| name.ends_with("manifest.json"));
    assert_eq!(manifests.count(), 1, "{:?}", site.files());
    assert!(site.files().iter().all(|name| !name.ends_with(".log")), "{:?}", site.files());
    collector.accept(&offered("shop", &[], &cpu(T0, &[("main", 10_000)]))).expect("accepted");
    collector.maintain();
    assert_eq!(total(), Some((11111, 111110)));
}
