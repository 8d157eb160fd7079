//! Symbolizes addresses spread over a binary with this crate and with the addr2line crate's `Loader`, and
//! prints what each took: `cargo run --release -p flamelet-symbol --example against_addr2line BINARY [COUNT]`.

use std::time::Instant;

use flamelet_symbol::symbolize::{ModuleName, SymbolizeOptions, Symbolizer};
use flamelet_symbol::{Limits, MappedAt};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path =
        arguments.next().unwrap_or_else(|| std::env::current_exe().expect("known").display().to_string());
    let count: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5000);
    let module = ModuleName { path: path.clone(), build_id: String::new() };
    let addresses = addresses(&path, count);

    let mut frames = 0;
    let mut ours = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let mut symbolizer =
            Symbolizer::new(SymbolizeOptions { limits: Limits::default(), ..SymbolizeOptions::default() });
        let answers = symbolizer.frames(&module, MappedAt::default(), &addresses);
        ours = ours.min(start.elapsed().as_secs_f64());
        frames = answers.iter().map(|frames| frames.len()).sum();
    }
    println!("flamelet-symbol: {:.1} ms, {frames} frames", ours * 1e3);

    let mut frames = 0;
    let mut theirs = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let loader = addr2line::Loader::new(&path).expect("readable");
        frames = addresses.iter().map(|&address| count_frames(&loader, address)).sum();
        theirs = theirs.min(start.elapsed().as_secs_f64());
    }
    println!("addr2line crate: {:.1} ms, {frames} frames", theirs * 1e3);
}

fn count_frames(loader: &addr2line::Loader, address: u64) -> usize {
    let Ok(mut iterator) = loader.find_frames(address) else { return 0 };
    let mut count = 0;
    while let Ok(Some(frame)) = iterator.next() {
        let named =
            frame.function.as_ref().and_then(|function| function.raw_name().ok().map(|name| name.len()));
        let placed = frame.location.and_then(|location| location.file.map(str::len));
        count += usize::from(named.is_some() || placed.is_some());
    }
    count
}

/// `count` addresses spread evenly, but not regularly, over the code.
fn addresses(path: &str, count: usize) -> Vec<u64> {
    use object::{Object, ObjectSection};
    let bytes = std::fs::read(path).expect("readable");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let text = file.section_by_name(".text").expect("code");
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let next = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        text.address() + random % text.size()
    };
    (0..count).map(next).collect()
}
