//! Recognises a file by its content and calls its reader.

use flamelet_profile::{ErrorKind, Profile, Result};

use crate::format::Recognition;
use crate::input::Input;
use crate::json::{self, is_json};
use crate::{Error, Format, FormatOptions, Notes, folded};

/// Reads `input` in whichever format it is.
pub(crate) fn read(
    mut input: Input<'_>,
    options: &FormatOptions,
    notes: &mut Notes,
) -> Result<(Format, Profile)> {
    if let Some(format) = options.format {
        return Ok((format, read_as(format, input, options, notes)?));
    }
    match recognise(input.head(), input.head_is_all()) {
        Ok(format) => Ok((format, read_as(format, input, options, notes)?)),
        // The keys that distinguish JSON formats may be at the end of the file.
        Err(_) if !input.head_is_all() && is_json(input.head()) => {
            let budget = input.budget().clone();
            let text = input.slurp()?;
            let format = recognise(&text, true)?;
            let input = Input::open(&text[..], &budget)?;
            Ok((format, read_as(format, input, options, notes)?))
        }
        // The first stack may be longer than the head.
        Err(_) if !input.head_is_all() && folded::may_have_long_line(input.head()) => {
            input.look_further()?;
            let format = recognise(input.head(), input.head_is_all())?;
            Ok((format, read_as(format, input, options, notes)?))
        }
        Err(error) => Err(error),
    }
}

fn read_as(format: Format, input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let Some((_, read)) = &format.entry().read else {
        let message = format!("{} can be written but not read", format.title());
        return Err(Error::new(ErrorKind::Incompatible, message));
    };
    read(input, options, notes)
}

/// Returns the format of the file that starts with `head`.
pub(crate) fn recognise(head: &[u8], head_is_all: bool) -> Result<Format> {
    if head.is_empty() {
        return Err(Error::new(ErrorKind::Truncated, "the file is empty"));
    }
    let found = match is_json(head) {
        true => json::Keys::of(head).and_then(|keys| recognise_json(&keys)),
        false if head.starts_with(b"==") => recognise_other(&without_noise(head), head_is_all),
        false => recognise_other(head, head_is_all),
    };
    found.ok_or_else(|| {
        Error::new(ErrorKind::UnknownFormat, "unknown format: this is not a profile that flamelet can read")
    })
}

/// Returns `head` without valgrind's messages (`==123== …`), which precede its output when both go to the same place.
fn without_noise(head: &[u8]) -> Vec<u8> {
    let lines = head.split_inclusive(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"=="));
    lines.flatten().copied().collect()
}

/// Returns the first format whose test satisfies `is_so`.
fn first_recognised(is_so: impl Fn(&Recognition) -> bool) -> Option<Format> {
    let told =
        |format: &&Format| format.entry().read.as_ref().is_some_and(|(recognition, _)| is_so(recognition));
    Format::all().iter().find(told).copied()
}

fn recognise_json(keys: &json::Keys<'_>) -> Option<Format> {
    first_recognised(|recognition| matches!(recognition, Recognition::Json(has_keys) if has_keys(keys)))
}

fn recognise_other(head: &[u8], head_is_all: bool) -> Option<Format> {
    first_recognised(|recognition| match recognition {
        Recognition::Bytes(starts) => starts(head),
        Recognition::MaybeCut(starts) => starts(head, head_is_all),
        Recognition::Json(_) => false,
    })
}
