//! The parts of a demangled Rust name.

/// Returns the crate that a Rust name belongs to; `None` for other names.
pub fn crate_name(name: &str) -> Option<&str> {
    // `<T as Trait>::f` belongs to its type; if the type is not a path (`&T`, `[T]`, `F`), to its trait.
    if let Some(inside) = name.strip_prefix('<') {
        let end = matching_angle(inside)?;
        let (inside, _) = inside.split_at(end);
        let (self_type, in_trait) = match split_as(inside) {
            Some((self_type, in_trait)) => (self_type, Some(in_trait)),
            None => (inside, None),
        };
        return crate_name(bare_type(self_type)).or_else(|| crate_name(in_trait?));
    }
    // In `push<std::path::Path>` the path is a parameter, which says nothing about the function.
    let (first, _) = name.split_once("::").filter(|(first, _)| !first.contains('<'))?;
    let first = first.split(' ').next().unwrap_or(first);
    let is_identifier = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_identifier.then_some(first)
}

/// Strips a type down to its path: `&mut dyn std::io::Write` becomes `std::io::Write`.
fn bare_type(mut name: &str) -> &str {
    for prefix in ["&", "mut ", "*const ", "*mut ", "dyn ", "impl ", "[", "("] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    name
}

/// Returns where the angle bracket that was opened before `text` closes.
pub fn matching_angle(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // The `>` of an arrow (`->`) closes nothing.
            '>' if before != '-' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Splits `Type as Trait` outside brackets.
pub fn split_as(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && text[at..].starts_with(" as ") => {
                return Some((&text[..at], &text[at + 4..]));
            }
            _ => {}
        }
    }
    None
}

/// Returns the path that shows whose code `<Type as Trait>::f` is: the type's, or the trait's if the type is not a
/// path.
pub fn bare_path(name: &str) -> &str {
    let Some(inside) = name.strip_prefix('<') else { return name };
    let Some(end) = matching_angle(inside) else { return name };
    match split_as(&inside[..end]) {
        Some((own, in_trait)) => {
            let own = bare_type(own);
            if crate_name(own).is_some() { own } else { in_trait }
        }
        None => bare_type(&inside[..end]),
    }
}

/// Returns the crate that the code of a Rust symbol belongs to, which a demangled name does not always say: the
/// implementation of a trait may be in the crate of the trait or of the type. `None` for symbols of other kinds.
///
/// ```
/// use flamelet_symbol::rust_name::crate_of_symbol;
/// let symbol = "_RNvXCs1_4shopNtCs2_10serde_json5ValueNtB2_5Price5price";
/// assert_eq!(crate_of_symbol(symbol, "<serde_json::Value as shop::Price>::price"), Some("shop"));
/// ```
pub fn crate_of_symbol<'s>(symbol: &'s str, name: &'s str) -> Option<&'s str> {
    let mut rest = symbol.strip_prefix("_R")?;
    loop {
        rest = match rest.as_bytes().first()? {
            // A name in a namespace, and generic arguments: the path follows.
            b'N' => rest.get(2..)?,
            b'I' => rest.get(1..)?,
            // An implementation: the path of the module that has it follows.
            b'M' | b'X' => without_disambiguator(rest.get(1..)?)?,
            b'C' => return identifier(without_disambiguator(rest.get(1..)?)?),
            // A method that the trait itself has.
            b'Y' => return trait_crate(name),
            _ => return None,
        };
    }
}

fn without_disambiguator(text: &str) -> Option<&str> {
    match text.strip_prefix('s') {
        Some(text) => text.split_once('_').map(|(_, rest)| rest),
        None => Some(text),
    }
}

/// Returns the identifier at the start of `text`: its length, then itself.
fn identifier(text: &str) -> Option<&str> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (length, rest) = text.split_at(digits);
    let rest = rest.strip_prefix('_').unwrap_or(rest);
    rest.get(..length.parse().ok()?)
}

/// Returns the crate of the trait in `<Type as Trait>::method`.
fn trait_crate(name: &str) -> Option<&str> {
    let inside = name.strip_prefix('<')?;
    let (_, in_trait) = split_as(&inside[..matching_angle(inside)?])?;
    crate_name(in_trait)
}

/// Returns the crate of a source file, and the file's path below the crate's `src`.
pub fn split_file(file: &str) -> Option<(String, &str)> {
    let (before, inside) = file.rsplit_once("/src/")?;
    let folder = before.rsplit('/').next()?;
    let name = match folder.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
        _ => folder,
    };
    Some((name.replace('-', "_"), inside))
}

/// Returns the module of a Rust source file: `tokio::runtime::task::core`.
pub fn module_of_file(file: &str) -> Option<String> {
    let (krate, inside) = split_file(file)?;
    let module = inside.strip_suffix(".rs")?;
    let module = module.strip_suffix("/mod").unwrap_or(module).replace('/', "::");
    Some(match module.as_str() {
        "lib" | "main" => krate,
        _ => format!("{krate}::{module}"),
    })
}

/// Returns the module of a function that has only its last name (`push<u8>`), as inlined ones do, from its file. `None` if
/// the name has a path, or the file says nothing.
pub fn module_of_last_name(name: &str, file: &str) -> Option<String> {
    let is_last_name = !name.is_empty() && !name.starts_with('<') && crate_name(name).is_none();
    module_of_file(file).filter(|_| is_last_name)
}
