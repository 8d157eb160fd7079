//! Lines as mangled names, of Rust and of C++.

#![no_main]

use flamelet_symbol::demangle::{cpp_name, demangle};
use libfuzzer_sys::fuzz_target;

/// The longest name, and a separator.
const LONGEST: usize = (1 << 16) + 2;

fuzz_target!(|bytes: &[u8]| {
    for symbol in String::from_utf8_lossy(bytes).lines() {
        for symbol in [symbol, &format!("_Z{symbol}"), &format!("_R{symbol}")] {
            let name = demangle(symbol);
            assert!(name == symbol || name.len() <= LONGEST);
            assert!(cpp_name(symbol).is_none_or(|name| !name.is_empty() && name.len() <= LONGEST));
        }
    }
});
