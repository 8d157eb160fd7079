//! The parts of a demangled Rust name.

/// The crate that a Rust name belongs to; `None` for names that are not Rust's.
pub fn crate_name(name: &str) -> Option<&str> {
    // `<T as Trait>::f` belongs to its type; a type that is no path (`&T`, `[T]`, `F`) to its trait.
    if let Some(inside) = name.strip_prefix('<') {
        let end = matching_angle(inside)?;
        let (inside, _) = inside.split_at(end);
        let (self_type, in_trait) = match split_as(inside) {
            Some((self_type, in_trait)) => (self_type, Some(in_trait)),
            None => (inside, None),
        };
        return crate_name(bare_type(self_type)).or_else(|| crate_name(in_trait?));
    }
    // In `push<std::path::Path>` the path stands in the parameters: it says nothing about the function.
    let (first, _) = name.split_once("::").filter(|(first, _)| !first.contains('<'))?;
    let first = first.split(' ').next().unwrap_or(first);
    let is_identifier = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_identifier.then_some(first)
}

/// A type without what stands around its path: `&mut dyn std::io::Write` is `std::io::Write`.
fn bare_type(mut name: &str) -> &str {
    for prefix in ["&", "mut ", "*const ", "*mut ", "dyn ", "impl ", "[", "("] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    name
}

/// Where the angle bracket that was opened before `text` closes.
pub fn matching_angle(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // An arrow (`->`) closes nothing.
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

/// Splits `Type as Trait` outside of brackets.
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

/// For `<Type as Trait>::f`, the path that says whose code it is: the type's, or the trait's when the type
/// is no path of its own.
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
