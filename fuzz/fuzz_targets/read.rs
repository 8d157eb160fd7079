//! Any bytes read as one format: no panic, an error of one line, and what is read can be written as pprof and read.
//!
//! One program for a target a reader: `read-perf-data` reads `perf-data`, and so on, `read-any` recognises. The environment
//! variable says which; without it, it is `read-any`.

#![no_main]

use std::sync::OnceLock;

use flamelet_formats::{Format, FormatOptions, Limits, read, write};
use libfuzzer_sys::fuzz_target;

fn format() -> Option<Format> {
    static FORMAT: OnceLock<Option<Format>> = OnceLock::new();
    *FORMAT.get_or_init(|| {
        let name = std::env::var("FLAMELET_FUZZ_FORMAT").unwrap_or_else(|_| "any".to_owned());
        (name != "any").then(|| name.parse().expect("a format"))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut options = FormatOptions::default();
    options.format = format();
    options.limits = Limits::of_memory(32 << 20);
    match read(bytes, &options) {
        Ok(read) => {
            let mut written = Vec::new();
            write(&read.profile, Format::Pprof, &mut written, &options).expect("any profile can be pprof");
            options.format = Some(Format::Pprof);
            options.limits = Limits::of_memory(1 << 30);
            let again = flamelet_formats::read(&written[..], &options).expect("what was written is readable");
            assert_eq!(again.profile.sample_count(), read.profile.sample_count());
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "`{message}` is not one line");
        }
    }
});
