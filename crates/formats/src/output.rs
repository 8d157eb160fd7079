//! What a format is written to.

use std::io::Write;

use crate::{FormatOptions, Notes};

/// Where a profile is written, how, and what is noted meanwhile.
pub(crate) struct Output<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) options: &'a FormatOptions,
    pub(crate) notes: &'a mut Notes,
}
