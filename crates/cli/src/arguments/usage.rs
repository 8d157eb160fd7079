//! Messages about an invalid command line: clap's text, with the prefix of all our messages.

use std::io::Write;
use std::process::ExitCode;

use crate::note::escaped;

/// The standard library's messages about numbers, and clearer ones.
const NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "not a whole number"),
    ("cannot parse integer from empty string", "not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "not a number"),
];

/// Prints the requested help, or the error.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    let _ = match ours(&error.render().to_string()) {
        Some(text) if error.use_stderr() => std::io::stderr().write_all(escaped(&text).as_bytes()),
        _ => error.print(),
    };
    if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Returns an error message with our prefix; `None` for help.
fn ours(text: &str) -> Option<String> {
    let text = text.strip_prefix("error: ")?;
    let mut paragraphs: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
    let is_about_json = paragraphs[0].contains("argument '--json'");
    // clap suggests passing the word after `--`, which does not help here.
    paragraphs.retain(|paragraph| !paragraph.starts_with("  tip: to pass '"));
    if is_about_json {
        paragraphs.retain(|paragraph| !paragraph.starts_with("  tip: "));
        paragraphs.insert(1, "  tip: this command has no JSON form; use top --json or traces --json".into());
    }
    if let Some(tip) = command_after_dashes(&paragraphs) {
        paragraphs.insert(1, tip);
    }
    let text = paragraphs.join("\n\n");
    let text = NUMBERS.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours));
    Some(format!("flamelet: {text}"))
}

/// Returns how to name a command to a verb that takes one after `--`, if the dashes were forgotten.
fn command_after_dashes(paragraphs: &[String]) -> Option<String> {
    let word = paragraphs.first()?.strip_prefix("unexpected argument '")?.strip_suffix("' found")?;
    let usage = paragraphs.iter().find_map(|paragraph| paragraph.trim().strip_prefix("Usage: "))?;
    let line = usage.lines().next()?.replace(" [OPTIONS]", "");
    let verb = line.split(" [-- <CMD>").next()?;
    let is_command = !word.starts_with('-') && usage.contains("[-- <CMD>");
    is_command.then(|| format!("  tip: put the command after --: {verb} -- {word} …"))
}

#[cfg(test)]
mod tests {
    use super::ours;

    #[test]
    fn a_command_without_its_dashes_gets_them() {
        let theirs = "error: unexpected argument './service' found\n\nUsage: flamelet record [OPTIONS] [-- <CMD>...]\n\n\
                      For more information, try '--help'.\n";
        let text = ours(theirs).expect("an error");
        assert!(
            text.contains("\n\n  tip: put the command after --: flamelet record -- ./service …\n\n"),
            "{text}"
        );
        let option = ours(&theirs.replace("./service", "--fast")).expect("an error");
        assert!(!option.contains("tip"), "{option}");
        let another =
            ours("error: unexpected argument 'x' found\n\nUsage: flamelet doctor\n").expect("an error");
        assert!(!another.contains("tip"), "{another}");
    }

    #[test]
    fn errors_begin_as_ours_do_and_speak_of_numbers_plainly() {
        let theirs = "error: invalid value 'abc' for '--pid <PID>': invalid digit found in string\n";
        let expected = "flamelet: invalid value 'abc' for '--pid <PID>': not a whole number\n";
        assert_eq!(ours(theirs).as_deref(), Some(expected));
        assert_eq!(ours("Usage: flamelet <COMMAND>"), None);
    }

    #[test]
    fn tips_that_lead_nowhere_are_left_out() {
        let theirs = "error: unexpected argument '--base' found\n\n  tip: to pass '--base' as a value, use \
                      '-- --base'\n\nUsage: flamelet diff\n";
        let expected = "flamelet: unexpected argument '--base' found\n\nUsage: flamelet diff\n";
        assert_eq!(ours(theirs).as_deref(), Some(expected));
        let json = ours(
            "error: unexpected argument '--json' found\n\n  tip: a similar argument exists: '--seconds'\n",
        );
        assert!(
            json.as_deref().is_some_and(|text| text.contains("top --json") && !text.contains("--seconds"))
        );
    }
}
