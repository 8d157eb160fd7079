//! Any bytes as the table of functions, files and lines of a Go program.

#![no_main]

use std::time::Duration;

use flamelet_fuzz::{TEXT, elf};
use flamelet_symbol::Limits;
use flamelet_symbol::symbolize::frames_in_elf;
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { memory: 64 << 20, time: Duration::from_secs(2), ..Limits::SERVICE };
const X86_64: u16 = 62;

fuzz_target!(|bytes: &[u8]| {
    let file = elf(X86_64, &[(".gopclntab", bytes)]);
    let addresses: Vec<u64> = TEXT.step_by(16).take(64).collect();
    if let Ok(resolved) = frames_in_elf(&file, &addresses, LIMITS) {
        assert_eq!(resolved.frames.len(), addresses.len());
    }
});
