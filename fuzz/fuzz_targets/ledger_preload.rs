//! Any bytes as the files of a program that `flamelet record --heap` recorded, which that program could write to.

#![no_main]

use flamelet_preload_ledger::{FIRST_FRAME, NODES_AT, modules::Modules, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(counts) = read(&spread(bytes)) {
        for (number, row) in counts.rows.iter().enumerate().skip(FIRST_FRAME as usize) {
            assert!((row.parent as usize) < number, "a walk to the root may not end");
        }
    }
    let modules = Modules::parse(&String::from_utf8_lossy(bytes));
    for (at, module) in modules.modules.iter().enumerate() {
        if let Some(found) = modules.find(module.start, at as u32) {
            assert!(found < modules.modules.len());
        }
    }
});

/// The header is short, and nodes begin at the next page: the fuzzer need not find out.
fn spread(bytes: &[u8]) -> Vec<u8> {
    let (header, nodes) = bytes.split_at(bytes.len().min(128));
    let mut file = header.to_vec();
    file.resize(NODES_AT, 0);
    file.extend_from_slice(nodes);
    file
}
