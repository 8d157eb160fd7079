//! An accepted profile, as the log has it.

use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter};
use flamelet_profile::{Budget, Error, ErrorKind, Profile, Result, pprof};

use crate::series::{Labels, check_service};

/// Nanoseconds of an hour.
pub(crate) const HOUR: i64 = 3_600_000_000_000;

/// An accepted profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptedProfile {
    pub(crate) service: String,
    pub(crate) labels: Labels,
    /// Pyroscope's name of the profile.
    pub(crate) name: String,
    /// When it begins, in nanoseconds since 1970, and how long it is.
    pub(crate) time: i64,
    pub(crate) duration: i64,
    /// The hash of its content, by which it is recognised if it is sent again.
    pub(crate) id: u128,
    /// The profile in pprof's format, unpacked.
    pub(crate) raw: Vec<u8>,
}

mod field {
    pub(super) const SERVICE: u32 = 1;
    pub(super) const LABEL: u32 = 2;
    pub(super) const NAME: u32 = 3;
    pub(super) const TIME: u32 = 4;
    pub(super) const DURATION: u32 = 5;
    pub(super) const ID: u32 = 6;
    pub(super) const PROFILE: u32 = 7;
}

impl AcceptedProfile {
    /// Returns the hour that the profile belongs to, counted since 1970.
    pub(crate) fn hour(&self) -> i64 {
        self.time.div_euclid(HOUR)
    }

    /// Returns the body of its record in the log.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::with_capacity(self.raw.len() + 256);
        message.bytes(field::SERVICE, self.service.as_bytes());
        for (name, value) in &self.labels {
            message.message(field::LABEL, |label| {
                label.bytes(1, name.as_bytes());
                label.bytes(2, value.as_bytes());
            });
        }
        message.bytes(field::NAME, self.name.as_bytes());
        message.int(field::TIME, self.time);
        message.int(field::DURATION, self.duration);
        message.bytes(field::ID, &self.id.to_le_bytes());
        message.bytes(field::PROFILE, &self.raw);
        message.into_bytes()
    }

    /// Reads the body of a record.
    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        let mut entry = Self::default();
        let mut fields = Fields::new(body);
        while let Some((number, value)) = fields.next()? {
            entry.set(number, value)?;
        }
        entry.checked()
    }

    /// Reads the beginning of the body of a record, and leaves the profile out. `None` if the beginning has not all of the
    /// rest.
    pub(crate) fn decode_head(beginning: &[u8]) -> Option<Result<Self>> {
        let (mut entry, mut fields) = (Self::default(), Fields::new(beginning));
        // The profile, which comes last, is cut off.
        while let Ok(Some((number, value))) = fields.next() {
            if number == field::PROFILE {
                break;
            }
            if let Err(error) = entry.set(number, value) {
                return Some(Err(error));
            }
        }
        (entry.id != 0).then(|| entry.checked())
    }

    fn set(&mut self, number: u32, value: FieldValue<'_>) -> Result<()> {
        match number {
            field::SERVICE => self.service = text(value.bytes()?)?,
            field::LABEL => self.labels.push(label(value.bytes()?)?),
            field::NAME => self.name = text(value.bytes()?)?,
            field::TIME => self.time = value.int()?,
            field::DURATION => self.duration = value.int()?,
            field::ID => {
                let bytes = value.bytes()?.first_chunk().copied();
                self.id = u128::from_le_bytes(bytes.ok_or_else(wrong)?);
            }
            field::PROFILE => self.raw = value.bytes()?.to_vec(),
            _ => {}
        }
        Ok(())
    }

    fn checked(self) -> Result<Self> {
        check_service(&self.service)?;
        Ok(self)
    }

    /// Reads the profile.
    pub(crate) fn profile(&self, budget: &Budget) -> Result<Profile> {
        pprof::read_within(&self.raw, budget)
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| wrong())
}

fn label(message: &[u8]) -> Result<(String, String)> {
    let (mut name, mut value) = (String::new(), String::new());
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => name = text(field.bytes()?)?,
            2 => value = text(field.bytes()?)?,
            _ => {}
        }
    }
    Ok((name, value))
}

fn wrong() -> Error {
    Error::new(ErrorKind::Corrupt, "a log record is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_written() {
        let entry = AcceptedProfile {
            service: "shop".into(),
            labels: vec![("region".into(), "eu".into()), ("zone".into(), "ü".into())],
            name: "process_cpu".into(),
            time: 7 * HOUR + 1,
            duration: 10,
            id: u128::MAX - 1,
            raw: b"profile".to_vec(),
        };
        assert_eq!(entry.hour(), 7);
        let bytes = entry.encode();
        assert_eq!(AcceptedProfile::decode(&bytes).expect("read"), entry);
        let head = AcceptedProfile { raw: Vec::new(), ..entry };
        let first_with_all = bytes.len() - b"profile".len() - 2;
        for end in 0..=bytes.len() {
            // No prefix makes it panic.
            let _ = AcceptedProfile::decode(&bytes[..end]);
            let read = AcceptedProfile::decode_head(&bytes[..end]).map(|read| read.expect("read"));
            assert_eq!(read, (end >= first_with_all).then(|| head.clone()), "{end} bytes");
        }
    }
}
