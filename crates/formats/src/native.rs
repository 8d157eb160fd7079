//! pprof's protobuf, which `flamelet_profile` reads and writes.

use flamelet_profile::{Profile, Result, pprof};

use crate::input::{Input, is_binary};
use crate::output::Output;
use crate::{FormatOptions, Notes};

/// Returns whether `head` starts like a pprof message.
pub(crate) fn recognise(head: &[u8]) -> bool {
    is_binary(head) && pprof::looks_like_pprof(head)
}

/// Reads a pprof message.
pub(crate) fn read(input: Input<'_>, _options: &FormatOptions, _notes: &mut Notes) -> Result<Profile> {
    let mut decoder = pprof::StreamDecoder::new(input.budget())?;
    input.each_piece(|piece| decoder.add(piece))?;
    decoder.finish()
}

/// Writes a compressed pprof message.
pub(crate) fn write(profile: &Profile, Output { out, .. }: Output<'_>) -> Result<()> {
    pprof::write_gzip(profile, out)
}
