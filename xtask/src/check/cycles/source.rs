//! Extracts from a source file the modules that it declares and the paths that it names.
//!
//! Comments, literals and everything under `#[cfg(test)]` are left out.

/// The parts of a file that concern modules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// Paths that begin with `crate`, `super` or `self`, with the inline module that contains them.
    pub(super) paths: Vec<Named>,
    /// Modules in other files that exist only for tests.
    pub(super) test_modules: Vec<String>,
}

/// A path, in a module of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) inside: Vec<String>,
    pub(super) path: Vec<String>,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut reading = Reading { tokens: &tokens(text), source: Self::default() };
        reading.items(&mut Vec::new());
        reading.source
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Then,
    Sign(char),
}

impl Token {
    fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }
}

/// Splits the text into words and symbols, without comments and literals.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphabetic() || first == '_' {
            let word = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            match raw_text(&rest[word..]).filter(|_| matches!(&rest[..word], "r" | "br" | "cr")) {
                Some(text) => word + text,
                None => {
                    tokens.push(Token::Word(rest[..word].to_owned()));
                    word
                }
            }
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else if rest.starts_with("::") {
            tokens.push(Token::Then);
            2
        } else {
            if !first.is_whitespace() && !first.is_numeric() {
                tokens.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of `#"…"#`, with any number of `#`.
fn raw_text(rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let inner = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(hashes + 1 + inner.find(&end)? + end.len())
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            [_, ..] => at += 1,
            [] => return at,
        }
        if depth == 0 {
            return at;
        }
    }
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a quoted character; for a lifetime, only of the quote.
fn character(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    let is_character = inside.next() == Some('\\') || inside.next() == Some('\'');
    if is_character { quoted(rest, '\'') } else { 1 }
}

struct Reading<'a> {
    tokens: &'a [Token],
    source: Source,
}

impl Reading<'_> {
    /// Reads until the end of the block, or of the file.
    fn items(&mut self, inside: &mut Vec<String>) {
        let mut is_path_going_on = false;
        while let Some((first, rest)) = self.tokens.split_first() {
            let before = std::mem::replace(&mut is_path_going_on, false);
            match first {
                Token::Sign('}') => {
                    self.tokens = rest;
                    return;
                }
                Token::Sign('{') => {
                    self.tokens = rest;
                    self.items(inside);
                }
                Token::Sign('#') => self.attribute(),
                Token::Word(word) if word == "mod" => self.module(inside),
                Token::Word(word) if !before && matches!(word.as_str(), "crate" | "super" | "self") => {
                    self.path(inside);
                }
                _ => {
                    // `$crate::` and `other::self` do not begin a path.
                    is_path_going_on = first.is('$') || *first == Token::Then;
                    self.tokens = rest;
                }
            }
        }
    }

    /// Skips `#[…]`, with the item it belongs to if that is only for tests.
    fn attribute(&mut self) {
        let tokens = &self.tokens[1..];
        let tokens = if tokens.first().is_some_and(|token| token.is('!')) { &tokens[1..] } else { tokens };
        let length = block_length(tokens);
        let is_for_tests = is_for_tests(&tokens[..length]);
        self.tokens = &tokens[length..];
        if is_for_tests {
            self.skip_item();
        }
    }

    fn skip_item(&mut self) {
        while self.tokens.first().is_some_and(|token| token.is('#')) {
            self.tokens = &self.tokens[1 + block_length(&self.tokens[1..])..];
        }
        if let [words @ .., Token::Word(name), Token::Sign(';')] = self.tokens_to_semicolon()
            && words.last() == Some(&Token::Word("mod".to_owned()))
        {
            self.source.test_modules.push(name.clone());
        }
        while let Some((first, rest)) = self.tokens.split_first() {
            match first {
                Token::Sign(';') => {
                    self.tokens = rest;
                    return;
                }
                Token::Sign('{') => {
                    self.tokens = &self.tokens[block_length(self.tokens)..];
                    return;
                }
                Token::Sign('(' | '[') => self.tokens = &self.tokens[block_length(self.tokens)..],
                _ => self.tokens = rest,
            }
        }
    }

    fn tokens_to_semicolon(&self) -> &[Token] {
        let end = self.tokens.iter().position(|token| token.is(';')).map_or(0, |at| at + 1);
        &self.tokens[..end]
    }

    /// Reads `mod name;` or `mod name { … }`.
    fn module(&mut self, inside: &mut Vec<String>) {
        if let [_, Token::Word(name), Token::Sign('{'), rest @ ..] = self.tokens {
            self.tokens = rest;
            inside.push(name.clone());
            self.items(inside);
            inside.pop();
        } else {
            self.tokens = &self.tokens[1..];
        }
    }

    /// Reads a path, or several in braces.
    fn path(&mut self, inside: &[String]) {
        let mut path = Vec::new();
        while let [Token::Word(word), rest @ ..] = self.tokens {
            path.push(word.clone());
            self.tokens = rest;
            let [Token::Then, rest @ ..] = self.tokens else { break };
            self.tokens = rest;
            if let [Token::Sign('{'), rest @ ..] = self.tokens {
                self.tokens = rest;
                self.branches(inside, &path);
                return;
            }
        }
        self.source.paths.push(Named { inside: inside.to_vec(), path });
    }

    /// Reads `a, b::{c, d}, e::*}`, each prefixed with `stem`.
    fn branches(&mut self, inside: &[String], stem: &[String]) {
        let known = self.source.paths.len();
        while let Some((first, rest)) = self.tokens.split_first() {
            match first {
                Token::Sign('}') => {
                    self.tokens = rest;
                    break;
                }
                Token::Word(word) if word == "as" => self.tokens = &rest[rest.len().min(1)..],
                Token::Word(_) => self.path(inside),
                _ => self.tokens = rest,
            }
        }
        for named in &mut self.source.paths[known..] {
            named.path.splice(..0, stem.iter().cloned());
        }
    }
}

/// Returns the number of tokens in a block, including its brackets.
fn block_length(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{' | '[' | '(') => depth += 1,
            Token::Sign('}' | ']' | ')') => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Returns whether an attribute is `cfg(test)`, or requires it among other conditions.
fn is_for_tests(attribute: &[Token]) -> bool {
    let words: Vec<&str> = attribute
        .iter()
        .filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None })
        .collect();
    words.first() == Some(&"cfg")
        && words.contains(&"test")
        && !words.contains(&"not")
        && !words.contains(&"any")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = Source::read(text);
        let text = |named: Named| [named.inside.join("/"), named.path.join("::")].join(" ");
        source.paths.into_iter().map(text).collect()
    }

    #[test]
    fn paths_are_found_where_code_names_them() {
        let text = r##"
            //! [`crate::doc`]
            use crate::{a::{B, c::*}, d as e, super_thing};
            use std::{io, self};
            pub(crate) use super::f::G;
            macro_rules! m { () => { $crate::h::run() } }
            /* crate::no /* crate::no */ crate::no */
            fn run<'a>(text: &'a str) { crate::i::run('"', "crate::no", r#"crate::"no"#, 'x', '\''); }
            mod inner { use super::super::j; fn f(self) { self.k() } }
            pub(in super::super) struct S;
        "##;
        let expected = [
            " crate::a::B",
            " crate::a::c",
            " crate::d",
            " crate::super_thing",
            " self",
            " crate",
            " super::f::G",
            " crate::i::run",
            "inner super::super::j",
            "inner self",
            "inner self",
            " super::super",
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn what_only_tests_have_is_left_out() {
        let text = "
            #[cfg(test)] use crate::a;
            #[cfg(test)]
            #[allow(unused, reason = \"x; y\")]
            mod tests { use crate::b; fn f() { { crate::c() } } }
            #[cfg(test)] static X: [u8; 3] = crate::d;
            #[cfg(all(test, unix))] mod elsewhere;
            #[cfg(unix)] use crate::e;
            #[cfg(not(test))] use crate::f;
        ";
        assert_eq!(paths(text), [" crate::e", " crate::f"]);
        assert_eq!(Source::read(text).test_modules, ["elsewhere"]);
    }
}
