//! `bench-symbolize ENGINE BINARY`: names, files, lines and inlined frames of 5,000 seeded addresses, twice.
//!
//! Prints `first-pass-µs second-pass-µs what-was-found`, in CPU time of this process.

mod addr2line_engine;
mod addresses;
mod blazesym_engine;
mod flamelet_engine;

use std::time::Duration;

/// What an engine found; the lengths keep the work from being left out.
#[derive(Default)]
struct Found {
    named: usize,
    frames: usize,
    letters: usize,
}

impl Found {
    /// Counts one frame with what is known about it.
    fn frame(&mut self, name: &str, file: &str, line: u32) {
        self.frames += 1;
        self.letters += name.len() + file.len() + usize::from(line > 0);
    }
}

/// A symbolizer with a binary open.
trait Engine {
    /// Symbolizes all addresses.
    fn pass(&mut self, addresses: &[u64]) -> Found;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, binary] = arguments.as_slice() else {
        eprintln!("usage: bench-symbolize flamelet|blazesym|addr2line BINARY");
        std::process::exit(2);
    };
    let addresses = addresses::seeded(binary, 5000);
    let start = cpu_time();
    let mut engine: Box<dyn Engine> = match engine.as_str() {
        "flamelet" => Box::new(flamelet_engine::Flamelet::open(binary)),
        "blazesym" => Box::new(blazesym_engine::Blazesym::open(binary)),
        "addr2line" => Box::new(addr2line_engine::Addr2line::open(binary)),
        other => panic!("no engine {other}"),
    };
    let found = engine.pass(&addresses);
    let first = cpu_time() - start;
    let again = engine.pass(&addresses);
    let second = cpu_time() - start - first;
    assert_eq!((found.frames, found.letters), (again.frames, again.letters), "two passes differ");
    println!("{} {} {} named, {} frames", first.as_micros(), second.as_micros(), found.named, found.frames);
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
