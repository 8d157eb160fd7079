//! Any words as the file that a process left which was killed: no panic, and every profile made of it is readable.

#![no_main]

use flamelet_capture::heap::Snapshot;
use flamelet_fuzz::sparse;
use flamelet_profile::pprof::{self, Limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = Snapshot::of_bytes(&sparse(bytes)) else { return };
    let views = [Snapshot::heap, Snapshot::peak, Snapshot::freed, Snapshot::lifetime, Snapshot::temporary];
    let differences = [snapshot.since(&snapshot), snapshot.growth(&snapshot)];
    for profile in views.iter().map(|view| view(&snapshot)).chain(differences) {
        pprof::read(&pprof::encode(&profile), &Limits::of_memory(1 << 30)).expect("a profile is readable");
    }
});
