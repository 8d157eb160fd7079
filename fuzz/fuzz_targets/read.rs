//! Any bytes read as one format: no panic, an error of one line, and what is read can be written as pprof and read.
//!
//! One source for a target a reader: the target `read-perf-data` reads `perf-data`, and so on; `read-any` recognises.

#![no_main]

use flamelet_formats::{Format, Options, read, write};
use libfuzzer_sys::fuzz_target;

fn format() -> Option<Format> {
    let name = env!("CARGO_BIN_NAME").strip_prefix("read-").expect("targets are named read-FORMAT");
    (name != "any").then(|| name.parse().expect("a format"))
}

fuzz_target!(|bytes: &[u8]| {
    let mut options = Options::default();
    options.format = format();
    options.max_bytes = 16 << 20;
    match read(bytes, &options) {
        Ok(read) => {
            let mut written = Vec::new();
            write(&read.profile, Format::Pprof, &mut written, &options).expect("any profile can be pprof");
            options.format = Some(Format::Pprof);
            options.max_bytes = 1 << 30;
            let again = flamelet_formats::read(&written[..], &options).expect("what was written is readable");
            assert_eq!(again.profile.sample_count(), read.profile.sample_count());
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && !message.contains('\n'), "`{message}` is not one line");
        }
    }
});
