//! Any bytes as the sections of debug information of a library that is otherwise right.

#![no_main]

use std::time::Duration;

use flamelet_fuzz::{DEBUG_SECTIONS, TEXT, elf, parts};
use flamelet_symbol::Limits;
use flamelet_symbol::symbolize::frames_in_elf;
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { memory: 64 << 20, time: Duration::from_secs(2), ..Limits::SERVICE };
const X86_64: u16 = 62;

fuzz_target!(|bytes: &[u8]| {
    let contents: [&[u8]; DEBUG_SECTIONS.len()] = parts(bytes);
    let sections: Vec<(&str, &[u8])> = DEBUG_SECTIONS.into_iter().zip(contents).collect();
    // From 0 on: what no linker has placed yet begins there.
    let addresses: Vec<u64> = (0..64).chain(TEXT.step_by(16).take(64)).collect();
    let resolved = frames_in_elf(&elf(X86_64, &sections), &addresses, LIMITS);
    if let Ok(resolved) = resolved {
        assert_eq!(resolved.frames.len(), addresses.len());
    }
});
