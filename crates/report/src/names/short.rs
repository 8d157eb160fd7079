//! Short forms of names, as the page makes them (`ui/src/names.js`; `ui/tests/names.json` has names for the tests of both).

/// Returns the last two steps of a path, without generics, C++ arguments and return types: `Context::run_task`.
pub(crate) fn short_name(name: &str) -> String {
    let plain = without_generics(name);
    let plain = without_arguments(&plain);
    let steps: Vec<&str> = steps(plain).into_iter().filter(|step| !step.is_empty()).collect();
    // A closure says nothing without the function around it.
    let is_closure = steps.last().is_some_and(|last| last.starts_with('{'));
    let count = if is_closure { 3 } else { 2 };
    match steps.len() {
        0..=2 => plain.to_owned(),
        all => steps[all.saturating_sub(count)..].join("::"),
    }
}

/// Splits a path at `::`, except within brackets.
fn steps(path: &str) -> Vec<&str> {
    let (mut depth, mut start, mut steps) = (0i32, 0, Vec::new());
    for (at, letter) in path.char_indices() {
        depth += step_of(letter);
        if depth == 0 && at >= start && path[at..].starts_with("::") {
            steps.push(&path[start..at]);
            start = at + 2;
        }
    }
    steps.push(&path[start..]);
    steps
}

/// Returns how a bracket changes the depth.
fn step_of(letter: char) -> i32 {
    match letter {
        '(' | '{' | '[' => 1,
        ')' | '}' | ']' => -1,
        _ => 0,
    }
}

/// Operators with angle brackets, longest first.
const OPERATORS: &[&str] = &["<=>", "<<=", "<<", "<=", "<", ">>=", ">>", ">=", "->*", "->", ">"];

/// Returns the length of an operator's name at the start of `text`, if it has angle brackets; `before` is the letter before it.
fn operator_length(text: &str, before: Option<char>) -> Option<usize> {
    let symbol = text.strip_prefix("operator")?;
    let is_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let found = OPERATORS.iter().find(|operator| symbol.starts_with(**operator))?;
    (!is_word).then_some("operator".len() + found.len())
}

/// Returns a name without the text between angle brackets; `<T as Trait>::f` becomes `T::f`.
fn without_generics(name: &str) -> String {
    let mut text = name.to_owned();
    if name.starts_with('<') {
        let Some(end) = closing_angle(name) else { return name.to_owned() };
        let inside = without_generics(name[1..end].trim());
        let own = inside.split(" as ").next().unwrap_or_default();
        text = format!("{own}{}", &name[end + 1..]);
    }
    let (mut depth, mut out, mut skip_to) = (0u32, String::new(), 0);
    let mut before = None;
    for (at, letter) in text.char_indices() {
        let previous = before.replace(letter);
        if at < skip_to {
            continue;
        }
        if depth == 0
            && let Some(length) = operator_length(&text[at..], previous)
        {
            out.push_str(&text[at..at + length]);
            skip_to = at + length;
            continue;
        }
        let is_arrow = letter == '>' && previous == Some('-');
        depth += u32::from(letter == '<');
        if depth == 0 {
            out.push(letter);
        }
        if letter == '>' && !is_arrow {
            depth = depth.saturating_sub(1);
        }
    }
    if depth == 0 && !out.is_empty() { out.replace("::::", "::") } else { name.to_owned() }
}

/// Returns where the angle bracket at the start of `text` is closed.
fn closing_angle(text: &str) -> Option<usize> {
    let (mut depth, mut before) = (0, None);
    for (at, letter) in text.char_indices() {
        let is_arrow = before.replace(letter) == Some('-');
        match letter {
            '<' => depth += 1,
            '>' if !is_arrow => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// What may follow the arguments of a C++ function.
const QUALIFIERS: &[&str] = &[" const", " volatile", " &&", " &", " noexcept"];

/// Returns a C++ name without its arguments, what follows them, and its return type; other names as they are.
pub(crate) fn without_arguments(name: &str) -> &str {
    let mut own = name;
    while let Some((before, _)) = own.strip_suffix(']').and_then(|text| text.rsplit_once(" [clone ")) {
        own = before;
    }
    let mut text = own;
    while let Some(before) = QUALIFIERS.iter().find_map(|qualifier| text.strip_suffix(qualifier)) {
        text = before;
    }
    if !text.ends_with(')') {
        return own;
    }
    let mut depth = 0;
    for (at, letter) in text.char_indices().rev().take_while(|(at, _)| *at > 0) {
        depth += i32::from(letter == ')') - i32::from(letter == '(');
        if depth == 0 {
            let before = text[..at].trim_end();
            let is_name = before.ends_with("operator") || before.ends_with('.');
            return if is_name { own } else { without_return_type(before) };
        }
    }
    own
}

/// Returns what follows the last space outside of brackets and before the name of an operator.
fn without_return_type(name: &str) -> &str {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let operator = name.match_indices("operator").map(|(at, _)| at);
    let operator = operator.filter(|&at| !name[..at].chars().next_back().is_some_and(is_word)).last();
    let (mut depth, mut start) = (0i32, 0);
    for (at, letter) in name[..operator.unwrap_or(name.len())].char_indices() {
        depth += step_of(letter) + i32::from(letter == '<') - i32::from(letter == '>');
        if letter == ' ' && depth == 0 {
            start = at + 1;
        }
    }
    &name[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_as_on_the_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/tests/names.json");
        let names = std::fs::read_to_string(path).expect("the names that both sides know");
        let names: Vec<[String; 2]> = serde_json::from_str(&names).expect("pairs of names");
        assert!(names.len() > 20);
        for [name, short] in names {
            assert_eq!(short_name(&name), short, "{name}");
        }
    }
}
