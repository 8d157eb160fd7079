//! The pictures of the documents are what the command draws of the committed profiles of the demo.
//!
//! `cargo xtask pictures` (or `FLAMELET_REGENERATE=1` with this test) draws them again.

use flamelet_tests::profiles;
use flamelet_tests::programs::{answer, command, flamelet, repository};

/// Each picture below `docs/images`, and the arguments that draw it.
const PICTURES: &[(&str, &[&str])] = &[
    ("flame.svg", &["flame", "testdata/demo-cpu.pb.gz", "--title", "The demo's CPU time"]),
    ("heap.svg", &["flame", "testdata/demo-heap.pb.gz", "--title", "The demo's memory in use"]),
    (
        "timeline.svg",
        &[
            "flame",
            "testdata/demo-cpu.pb.gz",
            "--timeline",
            "--title",
            "What the demo's threads did over time",
        ],
    ),
    (
        "diff.svg",
        &[
            "flame",
            "testdata/demo-after.pb.gz",
            "--diff-base",
            "testdata/demo-cpu.pb.gz",
            "--title",
            "The demo without its slow hash function, compared with before",
        ],
    ),
];

#[test]
fn the_pictures_of_the_documents_are_current() {
    let regenerate = std::env::var_os("FLAMELET_REGENERATE").is_some();
    for (name, arguments) in PICTURES {
        let committed = repository().join("docs/images").join(name);
        let drawn = if regenerate { committed.clone() } else { profiles::scratch().join(name) };
        let said =
            answer(command(flamelet()).args(*arguments).arg("-o").arg(&drawn).current_dir(repository()));
        assert_eq!(said.status, Some(0), "{name}: {}", said.stderr);
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let is_current = read(&drawn) == read(&committed);
        assert!(is_current, "docs/images/{name} is out of date; `cargo xtask pictures` draws it again");
    }
}
