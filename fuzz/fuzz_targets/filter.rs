//! Any profile under any filters: nothing panics, and the result is still a profile.
//!
//! The input's first line is the filter's text, the rest is the file.

#![no_main]

use flamelet_profile::filter::FilterOptions;
use flamelet_profile::pprof::{self, Limits};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits::of_memory(256 << 20);

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(text) = std::str::from_utf8(&bytes[..end]) else { return };
    let Ok(profile) = pprof::read(&bytes[end + 1..], &LIMITS) else { return };
    let with = |set: fn(&mut FilterOptions) -> &mut String| {
        let mut options = FilterOptions::default();
        text.clone_into(set(&mut options));
        options
    };
    let every = [
        with(|o| &mut o.focus),
        with(|o| &mut o.ignore),
        with(|o| &mut o.hide),
        with(|o| &mut o.show),
        with(|o| &mut o.show_from),
        with(|o| &mut o.prune_from),
        with(|o| &mut o.tag_focus),
        with(|o| &mut o.tag_ignore),
        with(|o| &mut o.tag_show),
        with(|o| &mut o.tag_hide),
    ];
    for options in every {
        let Ok(filter) = options.compile() else { continue };
        let mut filtered = profile.clone();
        filter.apply(&mut filtered);
        pprof::read(&pprof::encode(&filtered), &LIMITS).expect("a filtered profile is readable");
    }
});
