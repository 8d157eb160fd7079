//! The bundled page: its modules go together, and its hashes are right.

use std::collections::BTreeSet;
use std::path::Path;

use flamelet_report::page::{SCRIPT_HASH, STYLE_HASH, script, style};
use sha2::{Digest, Sha256};

#[test]
fn modules_can_be_put_together() {
    assert!(!script().lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
    // The script itself has no indentation that would tell names of a module from others.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui/src");
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the modules").flatten() {
        let module = std::fs::read_to_string(file.path()).expect("a module");
        for name in module.lines().filter_map(declared) {
            assert!(names.insert(name.clone()), "{name} is declared in two modules");
        }
    }
    assert!(names.contains("App") && script().contains("class App "), "the page is in it");
}

/// Returns the name that a line outside of any function declares.
fn declared(line: &str) -> Option<String> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = ["function ", "const ", "let ", "class "].iter().find_map(|word| line.strip_prefix(word))?;
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '$').collect();
    Some(name).filter(|name| !name.is_empty())
}

/// The build script hashes without a crate for it.
#[test]
fn the_hashes_are_those_of_the_script_and_the_style() {
    for (text, hash) in [(script(), SCRIPT_HASH), (style(), STYLE_HASH)] {
        let encoded =
            hash.strip_prefix("'sha256-").and_then(|hash| hash.strip_suffix("='")).expect("its form");
        assert_eq!(decoded(encoded), Sha256::digest(text.as_bytes()).as_slice());
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for digit in base64.chars() {
        bits = bits << 6 | DIGITS.find(digit).expect("a digit") as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[test]
fn the_page_and_diff_assume_the_same_variation_between_runs() {
    let assumed = format!("const ASSUMED_VARIATION = {};", flamelet_report::diff::ASSUMED_VARIATION);
    assert!(script().contains(&assumed), "{assumed}");
}
