//! Bundles the viewer's page (`ui`) into one script and one style sheet, and writes the hashes by which a page with both
//! inline allows them to run. Needs no Node.

mod sha256;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    let script = script();
    let style = source("palette.css") + &source("app.css");
    let svg_script = svg_script();
    assert!(!script.contains("</script"), "would end the element that holds it");
    assert!(!svg_script.contains("]]>"), "would end the part of the SVG file that holds it");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for (name, text) in [
        ("app.js.sha256", csp_hash(&script).into()),
        ("app.css.sha256", csp_hash(&style).into()),
        ("app.js.deflate", packed(&script)),
        ("app.css.deflate", packed(&style)),
        ("svg.js", svg_script.into()),
        ("svg.css", source("svg.css").into()),
    ] {
        fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    println!("cargo::rerun-if-changed=build");
}

/// Compresses a text: a service that shows no page has it inside, too.
fn packed(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("memory takes everything")
}

fn source(name: &str) -> String {
    let path = Path::new("ui").join(name);
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the script of the page: all modules inside one function.
fn script() -> String {
    let mut modules = Vec::new();
    in_order("main.js", &mut modules);
    let texts: String = modules.iter().map(|(name, text)| format!("// {name}\n{}", inlined(text))).collect();
    format!("(() => {{\n\"use strict\";\n{texts}}})();\n")
}

/// Adds a module and its text after the modules that it imports, each once.
fn in_order(module: &str, done: &mut Vec<(String, String)>) {
    if done.iter().any(|(other, _)| other == module) {
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
    done.push((module.to_owned(), text));
}

/// Returns the text of a module without its imports and without the word `export`; also without comments and indentation,
/// which are a quarter of it: every service carries it, and every page that is saved.
fn inlined(text: &str) -> String {
    let mut out = String::new();
    let (mut in_import, mut in_comment) = (false, false);
    for line in text.lines() {
        let line = if in_comment { line.to_owned() } else { without_types(line) };
        in_import |= line.starts_with("import ");
        in_comment |= line.trim_start().starts_with("/*");
        let shown = line.strip_prefix("export ").unwrap_or(&line).trim();
        if !in_import && !in_comment && !shown.is_empty() && !shown.starts_with("//") {
            // A text of several lines would lose its indentation.
            assert!(shown.matches('`').count().is_multiple_of(2), "a text of several lines: {line}");
            out.push_str(shown);
            out.push('\n');
        }
        in_import &= !line.ends_with(';');
        in_comment &= !line.ends_with("*/");
    }
    out
}

/// Returns a line without the types in it: `/** @type {…} */`.
fn without_types(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some(start) = line.find("/** @")
        && let Some(length) = line[start..].find("*/")
    {
        let code = line[start + length + 2..].trim_start().to_owned();
        line.replace_range(start.., &code);
    }
    line
}

/// Returns the script of SVG files: a function of its own, with what it imports.
fn svg_script() -> String {
    format!("(() => {{\n{}{}}})();\n", inlined(&source("src/names.js")), inlined(&source("svg.js")))
}

/// Returns the hash of a text as a content security policy has it: `'sha256-…'`, in base64.
fn csp_hash(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::from("'sha256-");
    for chunk in sha256::digest(text.as_bytes()).chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    out + "'"
}
