//! Any bytes: reading must neither panic nor eat memory, and what is read can be written and read again.
//!
//! `cargo xtask fuzz decode` runs it.

#![no_main]

use flamelet_profile::pprof::{self, Limits};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits::of_memory(256 << 20);

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = pprof::read(bytes, &LIMITS) else { return };
    let written = pprof::encode(&profile);
    let again = pprof::read(&written, &LIMITS).expect("what was written is readable");
    assert_eq!(pprof::encode(&again), written, "writing is not stable");
});
