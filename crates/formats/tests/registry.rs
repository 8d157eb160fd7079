//! What an entry of the registry requires besides its code: a sample, a fuzz target and a row of docs/formats.md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flamelet_formats::{Format, recognise};

const REWRITE: &str =
    "FLAMELET_REGENERATE=1 cargo test -p flamelet-formats --test registry writes what is missing";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(repository().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn readable() -> Vec<Format> {
    Format::all().iter().copied().filter(|format| format.can_read()).collect()
}

/// The files that the tests read, each with its format.
fn samples() -> Vec<(Format, PathBuf)> {
    let paths = [files("crates/formats/tests/data"), files("testdata")].concat();
    let recognised = |path: PathBuf| Some((recognise(&std::fs::read(&path).expect("a sample")).ok()?, path));
    paths.into_iter().filter(|path| path.is_file()).filter_map(recognised).collect()
}

/// Whether to write what is missing instead of asking for it.
fn is_regenerated() -> bool {
    std::env::var_os("FLAMELET_REGENERATE").is_some()
}

#[test]
fn every_readable_format_has_a_sample_that_is_recognised() {
    let samples = samples();
    for format in readable() {
        let has_one = samples.iter().any(|(of, _)| *of == format);
        assert!(has_one, "{format}: add a small file to crates/formats/tests/data");
    }
}

/// Makes seeds of the samples, for formats that have none yet.
fn write_seeds() {
    for (format, sample) in samples() {
        let folder = repository().join(format!("fuzz/corpus/read-{format}"));
        let name = sample.file_name().expect("a file").to_string_lossy().into_owned();
        if !folder.exists() {
            std::fs::create_dir(&folder).expect("fuzz/corpus can be written");
            std::fs::copy(&sample, folder.join(format!("seed-{name}"))).expect("the new folder");
        }
    }
}

#[test]
fn every_readable_format_is_fuzzed() {
    if is_regenerated() {
        write_seeds();
    }
    let targets: BTreeSet<String> = files("fuzz/corpus")
        .into_iter()
        .filter(|path| path.read_dir().expect("a corpus").next().is_some())
        .filter_map(|path| path.file_name()?.to_str()?.strip_prefix("read-").map(str::to_owned))
        .collect();
    let mut wanted: BTreeSet<String> = readable().iter().map(Format::to_string).collect();
    wanted.insert("any".to_owned());
    assert_eq!(targets, wanted, "a folder fuzz/corpus/read-NAME each, with a seed in it; {REWRITE}");
}

/// The row of a format in the documents.
fn row(format: Format) -> String {
    let mark = |is: bool| if is { "yes" } else { "" };
    let endings: Vec<String> =
        format.extensions().iter().map(|extension| format!("`.{extension}`")).collect();
    let (read, written) = (mark(format.can_read()), mark(format.can_write()));
    format!("| `{format}` | {} | {read} | {written} | {} |\n", format.title(), endings.join(", "))
}

#[test]
fn the_table_in_the_documents_has_every_format() {
    const FIRST: &str = "| name | format | read | written | file names |\n|---|---|---|---|---|\n";
    let path = repository().join("docs/formats.md");
    let text = std::fs::read_to_string(&path).expect("docs/formats.md");
    let (before, rest) = text.split_once(FIRST).expect("docs/formats.md has the table");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let mut formats = Format::all().to_vec();
    formats.sort_by_key(|format| format.name());
    let rows: String = formats.into_iter().map(row).collect();
    let right = format!("{before}{FIRST}{rows}\n{after}");
    if is_regenerated() {
        std::fs::write(&path, &right).expect("docs/formats.md can be written");
        return;
    }
    assert_eq!(text, right, "{REWRITE}");
}
