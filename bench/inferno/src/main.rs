//! `bench-inferno THREADS FILE [PICTURE]`: what `inferno-collapse-perf --nthreads THREADS FILE` does, and with a third
//! name the flame graph too, as cargo-flamegraph draws it.

use std::fs::File;
use std::io::BufWriter;

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (threads, file, picture) = match arguments.as_slice() {
        [threads, file] => (threads, file, None),
        [threads, file, picture] => (threads, file, Some(picture)),
        _ => {
            eprintln!("usage: bench-inferno THREADS FILE [PICTURE]");
            std::process::exit(2);
        }
    };
    let mut options = Options::default();
    options.nthreads = threads.parse().expect("a number of threads");
    let mut folder = Folder::from(options);
    let Some(picture) = picture else {
        folder.collapse_file_to_stdout(Some(file)).expect("perf script text");
        return;
    };
    let mut folded = Vec::new();
    folder.collapse_file(Some(file), &mut folded).expect("perf script text");
    let out = BufWriter::new(File::create(picture).expect("the picture can be written"));
    let mut looks = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_reader(&mut looks, folded.as_slice(), out).expect("a flame graph");
}
