//! Links of Markdown documents: the file must exist, and have the heading that the link names.

use std::collections::HashSet;
use std::path::Path;

/// Returns the targets of links that lead nowhere, in the text of a document.
pub(super) fn broken<'t>(document: &Path, text: &'t str) -> Vec<&'t str> {
    targets(text).filter(|target| !leads_somewhere(document, text, target)).collect()
}

/// What stands between the parentheses of `[…](…)`, except addresses of other sites.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

fn leads_somewhere(document: &Path, text: &str, target: &str) -> bool {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    if path.is_empty() {
        return headings(text).contains(heading);
    }
    let linked = document.parent().unwrap_or(document).join(path);
    if heading.is_empty() || !path.ends_with(".md") {
        return linked.exists();
    }
    std::fs::read_to_string(linked).is_ok_and(|text| headings(&text).contains(heading))
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the names by which links reach the headings of a document.
fn headings(text: &str) -> HashSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Forms the name of a heading as GitHub does: small letters and digits, with a hyphen for each space.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let text = "\
# The first: `one`
[here](#the-first-one), [not here](#the-second), [a site](https://example.com/#x), `f[0](x y)`
[a file](../Cargo.toml), [none](gone.md), [a heading](../../CONTRIBUTING.md#adding-a-format)
[none](../../CONTRIBUTING.md#adding-a-fromat)
```sh
# the-second
echo '[x](gone-too.md)'
```
";
        let document = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/document.md"));
        let expected = ["#the-second", "gone.md", "../../CONTRIBUTING.md#adding-a-fromat"];
        assert_eq!(broken(document, text), expected);
    }
}
