//! The name of a task, most often without an allocation of its own.

/// A name as long as this is kept in place: that of a route, or of a file and line.
const SHORT: usize = 54;

pub(super) enum Name {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

impl Name {
    pub(super) fn new(name: &str) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..name.len()) {
            Some(start) => {
                start.copy_from_slice(name.as_bytes());
                Self::Short { length: name.len() as u8, bytes }
            }
            None => Self::Long(name.into()),
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Short { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            Self::Long(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_are_kept() {
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            let name = "x".repeat(length);
            assert_eq!(Name::new(&name).text(), name);
        }
    }
}
