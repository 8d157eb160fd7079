//! Heap profiles name the function that allocated and not the allocator, here and in Go's pprof.

use flamelet_tests::compare::Duel;
use flamelet_tests::programs::{json_of, run_flamelet};

use crate::recordings::{record, rules_program};

/// Builds with full, with small and without debug information: inlined functions have paths, last names, or no names;
/// and with both kinds of symbols.
const BUILDS: &[(&str, &[&str])] = &[
    ("asks-v0", &["-O", "-g", "-C", "symbol-mangling-version=v0"]),
    ("asks-optimized", &["-O", "-g"]),
    ("asks-lines", &["-O", "-C", "debuginfo=line-tables-only"]),
    ("asks-plain", &["-O"]),
    ("asks-unoptimized", &["-g"]),
];

const ASKERS: &[&str] = &["ask_box", "ask_vec", "ask_string", "ask_owned", "ask_arc", "ask_push"];
/// They call `from_elem` and `to_vec`, which call `Clone`: old symbols do not say that the items are bytes.
const ASKERS_FOR_COPIES: &[&str] = &["ask_zeroed", "ask_bytes"];

#[test]
fn the_function_that_asked_is_at_the_top() {
    for (name, flags) in BUILDS {
        let program = rules_program(name, flags);
        let Some(file) = record(&program, "ask", &["--heap"]) else { return };
        let top = json_of(["top", "--json", "--no-trim", "-i", "alloc_space", file.to_str().expect("UTF-8")]);
        let rows = top["rows"].as_array().expect("rows");
        let copies = ASKERS_FOR_COPIES.iter().filter(|_| *name == "asks-v0");
        for asker in ASKERS.iter().chain(copies) {
            let own = rows.iter().find(|row| row["name"].as_str().is_some_and(|name| name.contains(asker)));
            let flat = own.map_or(0, |row| row["flat"].as_i64().expect("a number"));
            assert!(flat > 0, "{name}: {asker} has no memory of its own: {top:#}");
        }
    }
}

#[test]
fn pprof_names_the_same_functions() {
    let Some(mut duel) = Duel::begin() else { return };
    for (name, flags) in BUILDS {
        let program = rules_program(name, flags);
        let Some(file) = record(&program, "ask", &["--heap"]) else { return };
        let top = run_flamelet(["top".as_ref(), file.as_os_str()]).stdout;
        assert!(top.contains("ask_"), "{name}: {top}");
        for report in ["-top", "-tree", "-traces"] {
            for value in ["alloc_space", "inuse_objects", "peak_space"] {
                let value = format!("-sample_index={value}");
                duel.text(&[report, &value, "-symbolize=none"], &[&file]);
            }
        }
    }
    duel.end();
}
