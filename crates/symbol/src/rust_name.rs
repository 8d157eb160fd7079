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
