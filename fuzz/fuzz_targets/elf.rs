//! Any bytes as a program or a library: names, build ids, what `flamelet check` says, disassembly and unwind tables.

#![no_main]

use std::time::Duration;

use flamelet_fuzz::TEXT;
use flamelet_symbol::disassemble::{self, Style};
use flamelet_symbol::inspect::inspect_bytes;
use flamelet_symbol::symbolize::frames_in_elf;
use flamelet_symbol::{Limits, buildid};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { memory: 64 << 20, time: Duration::from_secs(2), ..Limits::SERVICE };

fuzz_target!(|bytes: &[u8]| {
    let addresses: Vec<u64> = TEXT.step_by(16).take(64).collect();
    if let Ok(resolved) = frames_in_elf(bytes, &addresses, LIMITS) {
        assert_eq!(resolved.frames.len(), addresses.len());
    }
    let _ = buildid::of_bytes(bytes);
    let _ = inspect_bytes(bytes);
    let _ = disassemble::function(bytes, "outer", Style::default());
    let _ = flamelet_unwind::Image::parse(bytes);
});
