//! Text reports as rows, independent of the width of their columns.

/// Returns every non-empty line with runs of spaces collapsed.
pub fn rows(text: &str) -> Vec<String> {
    text.lines().map(collapse).filter(|line| !line.is_empty()).collect()
}

/// Returns a line with runs of spaces collapsed.
pub fn collapse(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first difference between two lists of rows, with the row before it; `None` if they are equal.
pub fn first_difference(expected: &[String], found: &[String]) -> Option<String> {
    let at = (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))?;
    let show = |rows: &[String]| rows.get(at).map_or("(no more rows)", |row| row.as_str()).to_owned();
    let before = at.checked_sub(1).and_then(|at| expected.get(at)).map_or("", |row| row.as_str());
    Some(format!(
        "  row {}, after `{before}`\n    pprof    {}\n    flamelet {}\n",
        at + 1,
        show(expected),
        show(found)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_do_not_matter_but_words_do() {
        let left = rows("  a   1\n\n b 2\n");
        assert_eq!(first_difference(&left, &rows("a 1\nb 2")), None);
        let difference = first_difference(&left, &rows("a 1\nb 3")).expect("a difference");
        assert!(difference.contains("row 2, after `a 1`"), "{difference}");
        assert!(first_difference(&left, &rows("a 1")).is_some());
    }
}
