//! `file_sd_configs`: files with groups of targets.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::found::FoundTargets;
use super::groups::{self, Group};
use crate::scraper::labels::LabelSet;

/// The longest file that is read.
const MAX_FILE: u64 = 8 << 20;
/// The most files of a pattern.
const MAX_FILES: usize = 1000;

/// Paths whose last part may have `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) patterns: Vec<PathBuf>,
}

impl Files {
    /// Returns whether a path can be one of the patterns: it ends in `.json`, `.yml` or `.yaml`, and `*` is in its last
    /// part only.
    pub(crate) fn is_pattern(path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        !folder.contains('*') && format_of(Path::new(name)).is_some()
    }

    pub(super) fn find(&self) -> Result<Vec<LabelSet>, String> {
        let mut found = FoundTargets::new();
        for pattern in &self.patterns {
            for path in paths(pattern)? {
                let name = path.display().to_string();
                groups::add(read(&path)?, ("__meta_filepath", &name), &mut found)?;
            }
        }
        Ok(found.into_targets())
    }
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    Yaml,
}

fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "json" => Some(Format::Json),
        "yml" | "yaml" => Some(Format::Yaml),
        _ => None,
    }
}

/// Returns the files that match a pattern, sorted. A folder that is not there has none.
fn paths(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains('*') {
        return Ok(vec![pattern.to_owned()]);
    }
    let folder = pattern.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
        if entry.file_name().to_str().is_some_and(|found| matches(name, found)) {
            paths.push(entry.path());
        }
        if paths.len() > MAX_FILES {
            return Err(format!("{}: more than {MAX_FILES} files", pattern.display()));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns whether a name fits a pattern with `*`, which stands for any letters; not for a dot at the beginning.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

fn read(path: &Path) -> Result<Vec<Group>, String> {
    let name = path.display();
    let at = |error: std::io::Error| format!("{name}: {error}");
    // Not a pipe, which would make us wait.
    if !std::fs::metadata(path).map_err(at)?.is_file() {
        return Err(format!("{name}: this is not a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(at)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("{name}: longer than {} MiB", MAX_FILE >> 20));
    }
    match format_of(path) {
        Some(Format::Json) => groups::of_json(&bytes).map_err(|message| format!("{name}: {message}")),
        _ => {
            let text = String::from_utf8(bytes).map_err(|_| format!("{name}: this is not text (UTF-8)"))?;
            groups::of_yaml(&name.to_string(), &text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scraper::labels::get;

    #[test]
    fn files_of_a_pattern_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("a.json", r#"[{"targets": ["h:1"]}]"#);
        write("b.yml", "- targets: ['h:2']\n");
        write(".hidden.yml", "not yaml at all");
        write("c.txt", "not read");
        let files =
            |names: &[&str]| Files { patterns: names.iter().map(|name| folder.path().join(name)).collect() };
        let addresses = |files: &Files| -> Vec<String> {
            let found = files.find().expect("good");
            found.iter().map(|labels| get(labels, "__address__").to_owned()).collect()
        };
        assert_eq!(addresses(&files(&["*.json", "*.yml"])), ["h:1", "h:2"]);
        assert_eq!(addresses(&files(&["none*.json"])), [""; 0]);
        let found = files(&["b.yml"]).find().expect("good");
        assert!(get(&found[0], "__meta_filepath").ends_with("/b.yml"));
        for (name, message) in [("missing.json", "missing.json: No such file"), ("folder.json", "not a file")]
        {
            let _ = std::fs::create_dir(folder.path().join("folder.json"));
            let error = files(&[name]).find().expect_err(name);
            assert!(error.contains(message), "{error}");
        }
        write("bad.yaml", "- targets: ['h:1'\n");
        assert!(files(&["bad.yaml"]).find().expect_err("bad").contains("bad.yaml:1:12: "));
    }

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, name, fits) in [
            ("*.yml", "a.yml", true),
            ("*.yml", ".yml", false),
            ("a*b*.yml", "axxbyy.yml", true),
            ("a*b*.yml", "axx.yml", false),
            ("*a.yml", "a.yml", true),
            ("a*a.yml", "a.yml", false),
            ("a.yml", "a.ymlx", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        for (path, is_good) in [
            ("/etc/*.json", true),
            ("a.yaml", true),
            ("/e*/a.json", false),
            ("/etc/a.conf", false),
            ("", false),
        ] {
            assert_eq!(Files::is_pattern(path), is_good, "{path}");
        }
    }
}
