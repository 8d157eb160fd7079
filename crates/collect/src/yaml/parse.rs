//! The part of YAML that configurations need: keys with values, lists, texts with and without quotes, comments, and
//! lists in brackets. Anything else is refused, so that nothing is read differently from what was meant.

use std::collections::HashSet;

/// A mistake, and its place; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct YamlNode {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) value: YamlValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum YamlValue {
    Text(String),
    List(Vec<YamlNode>),
    /// The key of each entry is a text, with its place.
    Map(Vec<(YamlNode, YamlNode)>),
}

const MAX_DEPTH: usize = 20;

/// A line with something on it: where that begins, and the text up to a comment.
#[derive(Clone, Debug)]
struct YamlLine {
    line: usize,
    /// Counts from 0.
    indent: usize,
    text: String,
}

impl YamlLine {
    fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line, column: self.indent + 1, message: message.into() }
    }
}

impl Mistake {
    /// Returns it as one line; `name` is that of the file.
    pub(crate) fn line(&self, name: &str) -> String {
        format!("{name}:{}:{}: {}", self.line, self.column, self.message)
    }
}

impl YamlNode {
    pub(crate) fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line, column: self.column, message: message.into() }
    }

    /// Returns the line and the column where it begins.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

/// Reads a document.
pub(crate) fn parse(text: &str) -> Result<YamlNode, Mistake> {
    let mut rows = rows(text)?;
    rows.reverse();
    if rows.is_empty() {
        return Ok(YamlNode { line: 1, column: 1, value: YamlValue::Map(Vec::new()) });
    }
    if let [only] = &rows[..]
        && only.text.starts_with('[')
    {
        return scalar(&only.text, only.line, only.indent + 1);
    }
    let node = block(&mut rows, 0)?;
    match rows.last() {
        None => Ok(node),
        Some(row) => Err(row.mistake("the indentation does not fit the lines above")),
    }
}

fn rows(text: &str) -> Result<Vec<YamlLine>, Mistake> {
    let mut rows = Vec::new();
    // Some editors begin a file with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (at, line) in text.lines().enumerate() {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let row = YamlLine { line: at + 1, indent, text: without_comment(content).trim_end().to_owned() };
        if row.text.is_empty() {
            continue;
        }
        if row.text == "---" {
            match rows.is_empty() {
                true => continue,
                false => return Err(row.mistake("several documents in a file are not supported")),
            }
        }
        if row.text.starts_with('\t') {
            return Err(row.mistake("a tab; YAML indents with spaces"));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Cuts off a comment: `#` at the beginning or after a space, outside quotes.
fn without_comment(text: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            ('#', None) if before == ' ' => return &text[..at],
            ('"' | '\'', None) if " [,:{-".contains(before) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        before = letter;
    }
    text
}

/// Reads the lines from the last of `rows` (they are in reverse order) that belong together.
fn block(rows: &mut Vec<YamlLine>, depth: usize) -> Result<YamlNode, Mistake> {
    let Some(first) = rows.last().cloned() else {
        return Err(Mistake { line: 1, column: 1, message: "a value is missing".to_owned() });
    };
    if depth > MAX_DEPTH {
        return Err(first.mistake("too many levels"));
    }
    let is_list = is_item(&first.text);
    let value = if is_list {
        YamlValue::List(list(rows, first.indent, depth)?)
    } else {
        YamlValue::Map(map(rows, first.indent, depth)?)
    };
    Ok(YamlNode { line: first.line, column: first.indent + 1, value })
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn list(rows: &mut Vec<YamlLine>, indent: usize, depth: usize) -> Result<Vec<YamlNode>, Mistake> {
    let mut items = Vec::new();
    while let Some(row) = rows.last().filter(|row| row.indent >= indent).cloned() {
        if row.indent > indent {
            return Err(row.mistake("the indentation does not fit the lines above"));
        }
        if !is_item(&row.text) {
            // The next key of a map whose list is not indented.
            break;
        }
        rows.pop();
        let inner = row.text[1..].trim_start();
        let column = indent + (row.text.len() - inner.len());
        if inner.is_empty() {
            items.push(nested(rows, &row, indent, depth, "the list item")?);
        } else if is_item(inner) || key_of(inner).is_some() {
            // Its first line is on the same line as the dash.
            rows.push(YamlLine { line: row.line, indent: column, text: inner.to_owned() });
            items.push(block(rows, depth + 1)?);
        } else {
            items.push(scalar(inner, row.line, column + 1)?);
        }
    }
    Ok(items)
}

fn map(rows: &mut Vec<YamlLine>, indent: usize, depth: usize) -> Result<Vec<(YamlNode, YamlNode)>, Mistake> {
    let mut entries: Vec<(YamlNode, YamlNode)> = Vec::new();
    let mut names = HashSet::new();
    while let Some(row) = rows.last().filter(|row| row.indent >= indent).cloned() {
        if row.indent > indent {
            return Err(row.mistake("the indentation does not fit the lines above"));
        }
        if is_item(&row.text) {
            return Err(row.mistake("a list item among keys"));
        }
        let Some((key, rest)) = key_of(&row.text) else {
            return Err(row.mistake("expected \"key: value\" or \"- item\""));
        };
        if !names.insert(key.to_owned()) {
            return Err(row.mistake(format!("duplicate key {key:?}")));
        }
        let key = YamlNode { line: row.line, column: indent + 1, value: YamlValue::Text(key.to_owned()) };
        rows.pop();
        let value = rest.trim_start();
        let column = indent + (row.text.len() - value.len());
        let value = match value {
            "" => {
                nested(rows, &row, indent, depth, &format!("{:?}", key_of(&row.text).unwrap_or_default().0))?
            }
            value => scalar(value, row.line, column + 1)?,
        };
        entries.push((key, value));
    }
    Ok(entries)
}

/// Reads the lines below `row`, which are indented more; items of a list may begin where their key does.
fn nested(
    rows: &mut Vec<YamlLine>,
    row: &YamlLine,
    indent: usize,
    depth: usize,
    what: &str,
) -> Result<YamlNode, Mistake> {
    let is_below = |next: &YamlLine| {
        next.indent > indent || (next.indent == indent && is_item(&next.text) && !is_item(&row.text))
    };
    if rows.last().is_some_and(is_below) {
        return block(rows, depth + 1);
    }
    Err(row.mistake(format!("{what} has no value")))
}

/// Splits `key: value`.
fn key_of(text: &str) -> Option<(&str, &str)> {
    let at = text.find(':')?;
    let (key, rest) = (&text[..at], &text[at + 1..]);
    let is_key =
        !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    (is_key && (rest.is_empty() || rest.starts_with(' '))).then_some((key, rest))
}

/// Reads a text, or a list in brackets.
fn scalar(text: &str, line: usize, column: usize) -> Result<YamlNode, Mistake> {
    let place = YamlNode { line, column, value: YamlValue::Text(String::new()) };
    if let Some(inner) = text.strip_prefix('[') {
        let open = "the list has no closing bracket on this line";
        let inner = inner.strip_suffix(']').ok_or_else(|| place.mistake(open))?;
        let mut items = Vec::new();
        let mut at = column + 1;
        for part in split_items(inner) {
            let item = part.trim();
            let begin = at + part.chars().take_while(|letter| *letter == ' ').count();
            if item.starts_with('[') {
                return Err(place.mistake("a list in a list; write the outer one with dashes"));
            }
            if !item.is_empty() {
                items.push(scalar(item, line, begin)?);
            }
            at += part.chars().count() + 1;
        }
        return Ok(YamlNode { value: YamlValue::List(items), ..place });
    }
    if text.starts_with(['{', '&', '*', '!', '|', '>', '%', '@', '`']) {
        let message = if text.starts_with('{') {
            "keys in braces are not supported; write each on a line of its own"
        } else {
            "anchors, aliases, tags and multi-line texts are not supported"
        };
        return Err(place.mistake(message));
    }
    let inner = |quote: char| Some(text.strip_prefix(quote)?.strip_suffix(quote));
    let double = inner('"').map(|inner| inner.filter(|inner| !inner.contains('"')).map(str::to_owned));
    let single = inner('\'').map(|inner| {
        let is_whole = |inner: &&str| !inner.replace("''", "").contains('\'');
        inner.filter(is_whole).map(|inner| inner.replace("''", "'"))
    });
    match double.or(single) {
        Some(Some(inner)) if inner.contains('\\') && text.starts_with('"') => {
            Err(place.mistake("backslashes in double quotes are not supported; use single quotes"))
        }
        Some(Some(inner)) => Ok(YamlNode { value: YamlValue::Text(inner), ..place }),
        Some(None) => Err(place.mistake("the text has no closing quote")),
        None if ["~", "null", "Null", "NULL"].contains(&text) => Err(place
            .mistake(format!("{text} means no value; leave out the key, or write '{text}' for the text"))),
        None => Ok(YamlNode { value: YamlValue::Text(text.to_owned()), ..place }),
    }
}

/// Splits the items of a list in brackets, at the commas outside quotes.
fn split_items(text: &str) -> Vec<&str> {
    let (mut items, mut begin, mut quote) = (Vec::new(), 0, None);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (',', None) => {
                items.push(&text[begin..at]);
                begin = at + 1;
            }
            // Also again, after the first of two single quotes that stand for one.
            ('"' | '\'', None) if text[begin..].trim_start().starts_with(letter) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    items.push(&text[begin..]);
    items
}
