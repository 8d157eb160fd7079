//! What a profile can be converted to: the writable formats, and pictures.

use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use flamelet_formats::Format;

use crate::job::Picture;

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Format(Format),
    Flame(Picture),
    Dot,
}

/// What a profile can be converted to other than file formats for profiles.
const PICTURES: [(&str, &str, Made); 4] = [
    ("dot", "the call graph for Graphviz", Made::Dot),
    ("svg", "a flame graph", Made::Flame(Picture::Svg)),
    ("png", "a flame graph as a PNG image", Made::Flame(Picture::Png)),
    ("html", "a flame graph as one interactive page", Made::Flame(Picture::Html)),
];

impl Made {
    fn named(name: &str) -> Option<Self> {
        let picture = PICTURES.iter().find(|(known, ..)| *known == name).map(|(.., made)| *made);
        picture.or_else(|| name.parse().ok().filter(|format: &Format| format.can_write()).map(Self::Format))
    }

    /// Returns what the extension of a file selects.
    pub(crate) fn for_output(path: &Path) -> Option<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let picture = ending.map(|ending| if ending == "htm" { "html" } else { ending });
        let picture = picture.and_then(|name| PICTURES.iter().find(|(known, ..)| *known == name));
        picture.map(|(.., made)| *made).or_else(|| {
            let format = Format::for_output(&path.to_string_lossy())?;
            Some(Self::Format(format))
        })
    }

    /// Returns the names of everything that a profile can be converted to.
    pub(crate) fn names() -> Vec<&'static str> {
        let formats = by_name().into_iter().filter(|format| format.can_write()).map(Format::name);
        formats.chain(PICTURES.iter().map(|(name, ..)| *name)).collect()
    }
}

/// Returns all formats, sorted by name.
fn by_name() -> Vec<Format> {
    let mut formats = Format::all().to_vec();
    formats.sort_by_key(|format| format.name());
    formats
}

pub(super) fn parser() -> impl TypedValueParser<Value = Made> {
    // Each is described in the table below the options.
    let formats = by_name().into_iter().filter(|format| format.can_write()).map(|format| {
        let others = format.aliases().iter().chain(format.extensions()).copied();
        PossibleValue::new(format.name()).aliases(others.filter(|other| *other != format.name()))
    });
    let pictures = PICTURES.iter().map(|(name, ..)| PossibleValue::new(*name));
    let all: Vec<PossibleValue> = formats.chain(pictures).collect();
    PossibleValuesParser::new(all)
        .try_map(|name| Made::named(&name).ok_or("flamelet cannot write this format"))
}

/// Lists all formats, one per line.
pub(super) fn table() -> String {
    let mark = |is: bool, letter: char| if is { letter } else { ' ' };
    let formats = by_name().into_iter().map(|format| {
        (format.name(), mark(format.can_read(), 'r'), mark(format.can_write(), 'w'), format.title())
    });
    let pictures = PICTURES.iter().map(|&(name, title, _)| (name, ' ', 'w', title));
    let lines = formats.chain(pictures).map(|(name, read, written, title)| {
        let title = folded(title, 55).join("\n                      ");
        format!("  {name:<15} {read}{written}  {title}")
    });
    format!(
        "Formats (r: read, recognized by content, also in gzip, zstd, xz or bzip2; w: written):\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// Wraps `text` to lines of at most `width` characters where possible.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("one at least");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_and_formats_mean_the_same() {
        for name in Made::names() {
            assert!(Made::named(name).is_some(), "{name}");
        }
        assert_eq!(Made::named("massif"), None);
        for (file, made) in [
            ("a.svg", Some(Made::Flame(Picture::Svg))),
            ("a.htm", Some(Made::Flame(Picture::Html))),
            ("a.dot", Some(Made::Dot)),
            ("a.pb.gz", Some(Made::Format(Format::Pprof))),
            ("a.speedscope.json", Some(Made::Format(Format::Speedscope))),
            ("a.png", Some(Made::Flame(Picture::Png))),
            ("a.gif", None),
            ("a", None),
        ] {
            assert_eq!(Made::for_output(Path::new(file)), made, "{file}");
        }
    }
}
