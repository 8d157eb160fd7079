//! Protobuf's wire format.

/// A field's value as it lies in the message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message in order; `None` as an item means that the rest is damaged.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field; `Ok(None)` at the end, `Err` when the message is damaged.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, ()> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint().ok_or(())?;
        let number = u32::try_from(tag >> 3).map_err(|_| ())?;
        let value = match tag & 7 {
            0 => self.varint().map(Value::Varint),
            1 => self
                .take(8)
                .map(|bytes| Value::Fixed64(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))),
            5 => self
                .take(4)
                .map(|bytes| Value::Fixed32(u32::from_le_bytes(bytes.try_into().expect("four bytes")))),
            2 => {
                let length = self.varint().and_then(|length| usize::try_from(length).ok());
                length.and_then(|length| self.take(length)).map(Value::Bytes)
            }
            _ => None,
        };
        value.map(|value| Some((number, value))).ok_or(())
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

/// A message being written.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    fn raw_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u32, kind: u64) {
        self.raw_varint(u64::from(field) << 3 | kind);
    }

    /// A number, left out when 0.
    pub(super) fn varint(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.tag(field, 0);
            self.raw_varint(number);
        }
    }

    /// A signed number, left out when 0.
    pub(super) fn signed(&mut self, field: u32, number: i64) {
        self.varint(field, number as u64);
    }

    /// A fixed number, left out when 0.
    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.tag(field, 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Bytes or a message, also when empty.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Packed numbers.
    pub(super) fn packed(&mut self, field: u32, numbers: impl Iterator<Item = u64>) {
        let mut inside = Message::default();
        numbers.for_each(|number| inside.raw_varint(number));
        if !inside.0.is_empty() {
            self.bytes(field, &inside.0);
        }
    }

    /// Packed fixed numbers.
    pub(super) fn packed_fixed64(&mut self, field: u32, numbers: &[u64]) {
        if !numbers.is_empty() {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.bytes(field, &bytes);
        }
    }
}
