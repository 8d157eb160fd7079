//! A library with the sampler inside, as a plugin has it. `tests/dlopened.rs` loads it.

#![allow(unsafe_code, reason = "a function for the loader to find")]

use flamelet_capture::cpu::{self, Options};
use std::ffi::{CString, c_char};

/// Starts a capture and ends it; returns why it could not start, or null.
#[unsafe(no_mangle)]
pub extern "C" fn try_a_capture() -> *mut c_char {
    match cpu::start(&Options::default()) {
        Ok(session) => {
            drop(session.finish());
            std::ptr::null_mut()
        }
        // Leaked: the caller has another allocator, and exits.
        Err(error) => CString::new(error.to_string()).unwrap_or_default().into_raw(),
    }
}
