//! Any bytes as the bodies of the records of a service's history, and as a whole segment.

#![no_main]

use flamelet_fuzz::parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    flamelet_store::fuzz_segment(bytes);
    // The fuzzer need not find out how to compress them and to compute their checksums.
    flamelet_store::fuzz_bodies(&parts::<4>(bytes));
});
