//! Build ids, which distinguish builds of the same program.
//!
//! The linker writes a build id into a note of the file, and the note is mapped with the code. So a profile can
//! record which build it saw, and a symbolizer can refuse the wrong one.

use std::fmt;
use std::path::Path;

use flamelet_profile::hex;
use object::Object;

use crate::elf::file::Bytes;
use crate::elf::image::Image;
use crate::limits::Limits;
use crate::{Result, elf};

/// A GNU build id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Box<[u8]>);

impl BuildId {
    /// Makes an id of these bytes; `None` if there are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.into()))
    }

    /// Parses lower- or upper-case hexadecimal, as in profiles.
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&hex::decode(&text.to_ascii_lowercase())?)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path of this build's debug file in a `.build-id` folder: `xx/yyyy….debug`.
    pub fn debug_path(&self) -> String {
        let hex = self.to_string();
        format!("{}/{}.debug", &hex[..2], &hex[2..])
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

/// Returns the build id of the ELF file in `bytes`, if it has one.
pub fn of_bytes(bytes: &[u8]) -> Result<Option<BuildId>> {
    of_image(&Image::of(bytes))
}

/// Returns the build id of the ELF file at `path`, if it has one. Reads only its headers and notes.
pub fn of_file(path: &Path) -> Result<Option<BuildId>> {
    let image = Image::new(Bytes::open(path)?, Limits::SERVICE.memory);
    of_image(&image).map_err(|error| error.in_file(path))
}

fn of_image(image: &Image<'_>) -> Result<Option<BuildId>> {
    Ok(elf::parse(image)?.build_id()?.and_then(BuildId::from_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_both_ways() {
        let id = BuildId::from_hex("00ABcdef").expect("valid");
        assert_eq!(id.as_bytes(), [0x00, 0xab, 0xcd, 0xef]);
        assert_eq!(id.to_string(), "00abcdef");
        assert_eq!(id.debug_path(), "00/abcdef.debug");
        for bad in ["", "abc", "zz", "é!"] {
            assert_eq!(BuildId::from_hex(bad), None, "{bad:?}");
        }
    }
}
