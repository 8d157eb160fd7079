//! Numbers in either byte order.

/// Reads numbers and text from the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> ByteReader<'a> {
    /// Makes a reader of `bytes`, whose numbers are big-endian if `big` is set.
    pub fn new(bytes: &'a [u8], big: bool) -> Self {
        Self { bytes, big }
    }

    /// Returns what was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    /// Reads a number of two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        let word = self.chunk()?;
        Some(if self.big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) })
    }

    /// Reads a number of four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        let word = self.chunk()?;
        Some(if self.big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// Reads a number of eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        let word = self.chunk()?;
        Some(if self.big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }

    /// Returns what is left, up to the first zero byte.
    pub fn text(&self) -> &'a [u8] {
        let end = self.bytes.iter().position(|&byte| byte == 0).unwrap_or(self.bytes.len());
        &self.bytes[..end]
    }

    /// Reads an array of `count` numbers of eight bytes.
    #[inline]
    pub fn words(&mut self, count: u64) -> Option<WordArray<'a>> {
        let bytes = self.bytes(usize::try_from(count).ok()?.checked_mul(8)?)?;
        Some(WordArray { bytes, big: self.big })
    }
}

/// An array of numbers of eight bytes, each read on request.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordArray<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl<'a> WordArray<'a> {
    /// Returns the number at the index `at`.
    pub fn get(&self, at: usize) -> Option<u64> {
        ByteReader::new(self.bytes.get(at.checked_mul(8)?..)?, self.big).u64()
    }

    /// Returns the numbers as they are stored.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns all numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let big = self.big;
        let words = self.bytes.as_chunks::<8>().0.iter();
        words.map(move |&word| if big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }
}
