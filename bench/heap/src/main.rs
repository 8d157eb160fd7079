//! `bench-heap pairs MODE THREADS MILLIS MEAN | snapshot MODE MEBIBYTES`: one allocator, measured from inside.
//!
//! Each prints one line of JSON. The allocators are called directly, so that all of them fit into one program and
//! the rest of it always uses the system's. What cannot be chosen at run time is set by the environment before
//! the start: jemalloc reads `_RJEM_MALLOC_CONF`, pprof-alloc `PPROF_ALLOC_SAMPLE_RATE`.

mod clock;
mod mode;
mod pairs;
mod snapshot;
mod stack;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let mode = arguments.get(1).and_then(|name| mode::Mode::named(name));
    match (arguments.first().map(String::as_str), mode, number(2), number(3), number(4)) {
        (Some("pairs"), Some(mode), Some(threads), Some(millis), Some(mean)) => {
            let _profiler = mode.start(mean);
            pairs::run(mode, threads as usize, std::time::Duration::from_millis(millis), mean);
        }
        (Some("snapshot"), Some(mode), Some(mebibytes), ..) => snapshot::run(mode, mebibytes as usize),
        _ => {
            eprintln!("usage: bench-heap pairs MODE THREADS MILLIS MEAN | snapshot MODE MEBIBYTES");
            eprintln!("modes: {}", mode::NAMES.map(|(name, _)| name).join(" "));
            std::process::exit(2);
        }
    }
}
