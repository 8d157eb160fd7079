//! The error of a file that is not what it should be.

use flamelet_profile::{Error, ErrorKind};

pub(crate) fn damaged(what: &str) -> Error {
    let what: String = what.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Error::new(ErrorKind::Corrupt, format!("the block is damaged: {what}"))
}
