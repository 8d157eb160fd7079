//! Any bytes as the lists in which a runtime names the code that it generates: a perf map and a jitdump.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| flamelet_record::fuzz_generated(bytes));
