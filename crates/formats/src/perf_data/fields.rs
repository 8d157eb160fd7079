//! Reading the numbers of a record.

/// The bytes of a record and how far they were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], big: bool) -> Self {
        Self { bytes, big }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let word: [u8; 2] = self.bytes(2)?.try_into().ok()?;
        Some(if self.big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let word: [u8; 4] = self.bytes(4)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let word: [u8; 8] = self.bytes(8)?.try_into().ok()?;
        Some(if self.big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }

    /// The text up to the first zero byte of what is left.
    pub(super) fn text(&self) -> String {
        let end = memchr::memchr(0, self.bytes).unwrap_or(self.bytes.len());
        String::from_utf8_lossy(&self.bytes[..end]).into_owned()
    }

    /// A text with its length before it, as features have it.
    pub(super) fn counted_text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        Some(Fields::new(self.bytes(length)?, self.big).text())
    }

    /// `count` numbers, to be read when needed.
    pub(super) fn words(&mut self, count: u64) -> Option<Words<'a>> {
        let bytes = self.bytes(usize::try_from(count).ok()?.checked_mul(8)?)?;
        Some(Words { bytes, big: self.big })
    }
}

/// An array of 64-bit numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> Words<'a> {
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        Fields::new(self.bytes.get(at * 8..)?, self.big).u64()
    }

    /// The numbers as they stand in the file.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let big = self.big;
        self.bytes.chunks_exact(8).map_while(move |word| Fields::new(word, big).u64())
    }
}
