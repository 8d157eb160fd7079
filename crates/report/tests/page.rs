//! Bundles the page of `ui/` and compares it with the committed files.
//!
//! `UPDATE_PAGE=1 cargo test -p flamelet-report --test page` rewrites the committed files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn source(name: &str) -> String {
    let path = root().join("ui").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Modules after the modules they import, each once.
fn in_order(module: &str, done: &mut Vec<String>) {
    if done.iter().any(|other| other == module) {
        return;
    }
    let text = source(&format!("src/{module}"));
    for statement in text.split("\nimport ").skip(1) {
        let end = statement.find(';').unwrap_or_else(|| panic!("{module}: an import without an end"));
        let (_, path) = statement[..end]
            .split_once("from \"./")
            .unwrap_or_else(|| panic!("{module}: an import of something else: {}", &statement[..end]));
        in_order(path.trim_end_matches('"'), done);
    }
    done.push(module.to_owned());
}

/// The text of a module of `ui/` without its imports and without the word `export`.
fn inlined(module: &str) -> String {
    let mut out = String::new();
    let mut in_import = false;
    for line in source(module).lines() {
        in_import |= line.starts_with("import ");
        if !in_import && line != "// @ts-check" {
            out.push_str(line.strip_prefix("export ").unwrap_or(line));
            out.push('\n');
        }
        in_import &= !line.ends_with(';');
    }
    out
}

fn script() -> String {
    let mut modules = Vec::new();
    in_order("main.js", &mut modules);
    let mut out = String::from("(() => {\n\"use strict\";\n");
    for module in &modules {
        out.push_str(&format!("// {module}\n{}", inlined(&format!("src/{module}"))));
    }
    out.push_str("})();\n");
    out
}

/// The script of SVG files: a function of its own with what it imports.
fn svg_script() -> String {
    format!("(() => {{\n{}{}}})();\n", inlined("src/names.js"), inlined("svg.js"))
}

fn csp_hash(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::from("'sha256-");
    for chunk in Sha256::digest(text.as_bytes()).chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    out + "'\n"
}

#[test]
fn what_is_built_in_is_what_ui_holds() {
    let (script, style) = (script(), source("palette.css") + &source("app.css"));
    let wanted = [
        ("page/assets/app.js.sha256", csp_hash(&script)),
        ("page/assets/app.css.sha256", csp_hash(&style)),
        ("page/assets/app.js", script),
        ("page/assets/app.css", style),
        ("flame/svg.js", svg_script()),
        ("flame/svg.css", source("svg.css")),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let update = std::env::var_os("UPDATE_PAGE").is_some();
    for (name, text) in &wanted {
        let path = folder.join(name);
        if update {
            fs::write(&path, text).unwrap();
        }
        let built_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            built_in == *text,
            "{name} is stale: UPDATE_PAGE=1 cargo test -p flamelet-report --test page"
        );
    }
}

#[test]
fn modules_can_be_put_together() {
    let script = script();
    assert!(!script.contains("</script"), "would end the element that holds it");
    assert!(!svg_script().contains("]]>"), "would end the part of the SVG file that holds it");
    assert!(!script.lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
    let mut names = BTreeSet::new();
    for line in script.lines() {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let declared =
            ["function ", "const ", "let ", "class "].iter().find_map(|word| line.strip_prefix(word));
        if let Some(rest) = declared {
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '$').collect();
            assert!(names.insert(name.clone()), "{name} is declared in two modules");
        }
    }
}

#[test]
fn the_page_and_diff_assume_the_same_variation_between_runs() {
    let assumed = format!("const ASSUMED_VARIATION = {};", flamelet_report::diff::ASSUMED_VARIATION);
    assert!(source("src/units.js").contains(&assumed), "{assumed}");
}
