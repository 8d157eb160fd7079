//! Prints the size of the unwind table of each file given (or of this process' own modules), and how long it
//! took to make.
//!
//! `cargo run --release -p flamelet-unwind --example table_stats -- FILE…`

use flamelet_unwind::{Image, Modules};
use std::path::Path;
use std::time::Instant;

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        let modules = Modules::of_this_process().expect("this process can be read");
        files = modules
            .iter()
            .map(|module| module.name.to_string())
            .filter(|name| name.starts_with('/'))
            .collect();
    }
    println!(
        "{:>9} {:>9} {:>7} {:>9} {:>9} {:>10}",
        "text KB", "table KB", "share", "rows", "ms", "ms/MB text"
    );
    for file in files {
        let mut best = f64::INFINITY;
        let mut made = None;
        for _ in 0..5 {
            let start = Instant::now();
            match Image::open(Path::new(&file)) {
                Ok(image) => made = Some(image),
                Err(error) => println!("{file}: {error}"),
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        let Some(image) = made else { continue };
        let text = image.text_size() as f64;
        let (size, rows) = image.table().map_or((0, 0), |table| (table.byte_size(), table.row_count()));
        println!(
            "{:>9.0} {:>9.0} {:>6.1}% {:>9} {:>9.2} {:>10.2} {file}",
            text / 1024.0,
            size as f64 / 1024.0,
            size as f64 * 100.0 / text.max(1.0),
            rows,
            best,
            best / (text / 1e6)
        );
    }
}
