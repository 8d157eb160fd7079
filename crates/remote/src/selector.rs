//! Label selectors as Prometheus, Pyroscope and Parca write them: `{service_name="checkout", route=~"/api/.*"}`.

use flamelet_profile::{Error, Result};
use regex::{Regex, RegexBuilder};

/// The longest selector.
const MAX_LENGTH: usize = 16 << 10;
/// The most memory that a regular expression may take.
const MAX_REGEX: usize = 1 << 20;

/// Conditions on labels, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    matchers: Vec<Matcher>,
}

#[derive(Clone, Debug)]
struct Matcher {
    name: String,
    test: Test,
    is_negated: bool,
}

#[derive(Clone, Debug)]
enum Test {
    Equal(String),
    Regex(Regex),
}

impl Selector {
    /// Reads a selector; the braces may be missing, and an empty one matches everything.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            return Err(Error::invalid("the label selector is too long"));
        }
        let text = text.trim();
        let inner = match text.strip_prefix('{') {
            Some(rest) => {
                rest.strip_suffix('}').ok_or_else(|| wrong(text, "the closing brace is missing"))?
            }
            None => text,
        };
        let (mut matchers, mut rest) = (Vec::new(), inner.trim());
        while !rest.is_empty() {
            let (matcher, after) = matcher(text, rest)?;
            matchers.push(matcher);
            rest = match after.trim_start() {
                "" => "",
                after => {
                    after.strip_prefix(',').ok_or_else(|| wrong(text, "a comma is missing"))?.trim_start()
                }
            };
        }
        Ok(Self { matchers })
    }

    /// Reads several selectors, all of which must hold.
    pub fn parse_all<T: AsRef<str>>(texts: &[T]) -> Result<Self> {
        let mut all = Self::default();
        for text in texts {
            all.matchers.extend(Self::parse(text.as_ref())?.matchers);
        }
        Ok(all)
    }

    /// Returns the names of the labels that it looks at.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.matchers.iter().map(|matcher| &*matcher.name)
    }

    /// Returns the value that a label must have, if the selector requires exactly one.
    pub fn equal(&self, name: &str) -> Option<&str> {
        self.matchers.iter().find_map(|matcher| match &matcher.test {
            Test::Equal(value) if matcher.name == name && !matcher.is_negated => Some(&**value),
            _ => None,
        })
    }

    /// Returns whether labels match. A label that is missing counts as empty.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.matchers.iter().all(|matcher| matcher.holds(label(&matcher.name).unwrap_or_default()))
    }

    /// Returns whether anything may match, by each condition alone: `is_possible` gets the name of a label and a test of
    /// its values, and returns whether there may be a value that passes.
    pub fn may_match(&self, is_possible: impl Fn(&str, &dyn Fn(&str) -> bool) -> bool) -> bool {
        self.matchers.iter().all(|matcher| is_possible(&matcher.name, &|value| matcher.holds(value)))
    }
}

impl Matcher {
    fn holds(&self, value: &str) -> bool {
        let holds = match &self.test {
            Test::Equal(text) => text == value,
            Test::Regex(regex) => regex.is_match(value),
        };
        holds != self.is_negated
    }
}

/// Reads one condition, and returns what follows it.
fn matcher<'a>(whole: &str, text: &'a str) -> Result<(Matcher, &'a str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"_.:".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    if name.is_empty() {
        return Err(wrong(whole, "the name of a label is missing"));
    }
    let operators = [("!~", true, true), ("=~", false, true), ("!=", true, false), ("=", false, false)];
    let found = operators.into_iter().find_map(|(operator, is_negated, is_regex)| {
        rest.strip_prefix(operator).map(|rest| (rest, is_negated, is_regex))
    });
    let (rest, is_negated, is_regex) = found.ok_or_else(|| wrong(whole, "=, !=, =~ or !~ is missing"))?;
    let (value, rest) = quoted(rest.trim_start()).ok_or_else(|| wrong(whole, "a value is not in quotes"))?;
    let test = if is_regex { Test::Regex(regex(whole, &value)?) } else { Test::Equal(value) };
    Ok((Matcher { name: name.to_owned(), test, is_negated }, rest))
}

/// Reads a text in double quotes with Go's simple escapes, or in backquotes.
fn quoted(text: &str) -> Option<(String, &str)> {
    if let Some(rest) = text.strip_prefix('`') {
        let (value, rest) = rest.split_once('`')?;
        return Some((value.to_owned(), rest));
    }
    let mut characters = text.strip_prefix('"')?.char_indices();
    let mut value = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 2..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other @ ('"' | '\\' | '\'') => other,
                _ => return None,
            }),
            other => value.push(other),
        }
    }
    None
}

/// Prometheus matches the whole value.
fn regex(whole: &str, text: &str) -> Result<Regex> {
    let compile = |pattern: &str| RegexBuilder::new(pattern).size_limit(MAX_REGEX).build();
    // By itself first: `a)|(b` would be valid between the other parentheses.
    let compiled = compile(text).and_then(|_| compile(&format!("^(?s:{text})$")));
    compiled.map_err(|_| wrong(whole, "a regular expression is not valid or too large"))
}

fn wrong(selector: &str, what: &str) -> Error {
    let shown: String = selector.chars().take(60).collect();
    Error::invalid(format!("the label selector {shown:?} is not valid: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let labels = [("service_name", "checkout"), ("route", "/api/cart"), ("quote", "a\"b")];
        let find = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        Selector::parse(selector).expect(selector).matches(find)
    }

    #[test]
    fn selectors_match_as_in_prometheus() {
        for selector in [
            "",
            "{}",
            r#"{service_name="checkout"}"#,
            r#"service_name="checkout""#,
            r#"{ service_name = "checkout" , route=~"/api/.*", }"#,
            r#"{route!~"api"}"#,
            r#"{route!="/api/other", missing=""}"#,
            r#"{missing=~".*", missing!~".+"}"#,
            r#"{quote="a\"b"}"#,
            "{route=`/api/cart`}",
        ] {
            assert!(matches(selector), "{selector}");
        }
        for selector in
            [r#"{service_name="other"}"#, r#"{route=~"/api"}"#, r#"{missing!=""}"#, r#"{route!~"/api/.*"}"#]
        {
            assert!(!matches(selector), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_a_reason() {
        for selector in [
            "{",
            "{a}",
            "{a=}",
            "{a=b}",
            r#"{a="b}"#,
            r#"{a="b" c="d"}"#,
            r#"{="b"}"#,
            r#"{a=~"("}"#,
            r#"{a=~"b)|(c"}"#,
            r#"{a=~"(a{999}){999}"}"#,
            r#"{a="\x"}"#,
            "}{",
            r#"{a=="b"}"#,
            "\u{1f600}",
        ] {
            let error = Selector::parse(selector).expect_err(selector);
            assert!(error.to_string().contains("not valid") && !error.to_string().contains('\n'), "{error}");
        }
        assert!(Selector::parse(&"a".repeat(1 << 20)).is_err());
    }
}
