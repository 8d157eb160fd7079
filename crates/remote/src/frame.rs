//! The frames of gRPC and gRPC-Web: a flag, the length, and the message.

use flamelet_profile::{Error, ErrorKind, Result};

/// A frame at the beginning of a body.
pub(crate) struct Frame<'a> {
    pub(crate) flag: u8,
    pub(crate) message: &'a [u8],
    /// What follows it.
    pub(crate) rest: &'a [u8],
}

/// Puts a message into a frame whose flag says that it is not compressed.
pub(crate) fn frame(message: &[u8]) -> Result<Vec<u8>> {
    let too_large = |_| Error::new(ErrorKind::TooLarge, "the profile is too large for gRPC");
    let length = u32::try_from(message.len()).map_err(too_large)?;
    Ok([&[0][..], &length.to_be_bytes(), message].concat())
}

/// Returns the first frame of a body; `None` if it is not whole.
pub(crate) fn first_frame(body: &[u8]) -> Option<Frame<'_>> {
    let (&[flag, ref length @ ..], rest) = body.split_first_chunk::<5>()?;
    let (message, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(Frame { flag, message, rest })
}

/// Returns the message of a body whose first frame is not compressed.
pub(crate) fn first_message(body: &[u8]) -> Option<&[u8]> {
    first_frame(body).filter(|frame| frame.flag == 0).map(|frame| frame.message)
}
