//! Any bytes as a request to the endpoints of a service, up to what it asks the profiler for.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| flamelet::http::fuzz_request(bytes));
