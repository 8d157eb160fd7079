//! The licences of what the command links, which must accompany it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::linked;
use crate::Failure;

/// How the files of a licence begin.
const BEGINNINGS: [&str; 6] = ["license", "licence", "copying", "notice", "unlicense", "copyright"];

/// Returns the texts of all licences, each under the packages that come with it.
pub(super) fn notices(metadata: &Value, root: &str) -> Result<String, Failure> {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    let mut without = Vec::new();
    for package in linked(metadata, root).into_iter().filter(|package| !package["source"].is_null()) {
        let part = |field: &str| package[field].as_str().unwrap_or_default();
        let name = format!("{} {} ({})", part("name"), part("version"), part("license"));
        let files = licence_files(Path::new(part("manifest_path")));
        if files.is_empty() {
            without.push(name.clone());
        }
        for file in files {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
            let text = text.trim().to_owned();
            match texts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(name.clone()),
                None => texts.push((text, vec![name.clone()])),
            }
        }
    }
    let rule = "-".repeat(80);
    let mut all = "flamelet contains the following crates.\n".to_owned();
    for (text, mut names) in texts {
        names.dedup();
        all += &format!("\n{rule}\n{}\n{rule}\n\n{text}\n", names.join("\n"));
    }
    if !without.is_empty() {
        all += &format!("\n{rule}\nWithout a text in their packages:\n{}\n", without.join("\n"));
    }
    Ok(all)
}

/// Returns the files with licences next to a manifest, sorted.
fn licence_files(manifest: &Path) -> Vec<PathBuf> {
    let folder = manifest.parent().unwrap_or(manifest);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        path.is_file() && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_licence).collect();
    files.sort();
    files
}
