//! An accepted profile, as the log has it.

use std::borrow::Cow;

use flamelet_profile::pprof::{Packing, packing};
use flamelet_profile::protobuf::{FieldValue, Fields, MessageWriter};
use flamelet_profile::{Error, ErrorKind, Result};
use flamelet_remote::receive::gunzip;
use flamelet_store::record::MAX_BODY;

use crate::series::{Labels, check_service};

/// Nanoseconds of an hour.
pub(crate) const HOUR: i64 = 3_600_000_000_000;

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
    /// Labels of series that the process does not have any more, see `collector::gone`.
    pub(crate) gone: Vec<Labels>,
    /// The profile in pprof's format; with gzip if it was sent with it, for that is not done again.
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
    pub(super) const GONE: u32 = 8;
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
        write_labels(&mut message, field::LABEL, &self.labels);
        message.bytes(field::NAME, self.name.as_bytes());
        message.int(field::TIME, self.time);
        message.int(field::DURATION, self.duration);
        for labels in &self.gone {
            message.message(field::GONE, |gone| write_labels(gone, 1, labels));
        }
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

    /// Reads the beginning of the body of a record, without the profile. `None` if the beginning does not have all of the
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
            field::GONE => self.gone.push(labels(value.bytes()?)?),
            _ => {}
        }
        Ok(())
    }

    fn checked(self) -> Result<Self> {
        check_service(&self.service)?;
        Ok(self)
    }

    pub(crate) fn is_packed(&self) -> bool {
        packing(&self.raw) == Packing::Gzip
    }

    /// Returns the profile in pprof's format.
    pub(crate) fn unpacked(&self) -> Result<Cow<'_, [u8]>> {
        Ok(if self.is_packed() { gunzip(&self.raw, MAX_BODY)?.into() } else { (&*self.raw).into() })
    }
}

fn write_labels(message: &mut MessageWriter, number: u32, labels: &Labels) {
    for (name, value) in labels {
        message.message(number, |label| {
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
        });
    }
}

fn labels(message: &[u8]) -> Result<Labels> {
    let (mut labels, mut fields) = (Labels::new(), Fields::new(message));
    while let Some((_, field)) = fields.next()? {
        labels.push(label(field.bytes()?)?);
    }
    Ok(labels)
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
    use flamelet_profile::pprof;

    use super::*;

    #[test]
    fn a_profile_is_the_same_with_and_without_gzip() {
        let profile = flamelet_profile::ProfileBuilder::new(&[("samples", "count")]).finish();
        let mut packed = Vec::new();
        pprof::write_gzip(&profile, &mut packed).expect("packed");
        for (raw, is_packed) in [(pprof::encode(&profile), false), (packed, true)] {
            let mut entry = AcceptedProfile { raw, ..AcceptedProfile::default() };
            assert_eq!(entry.is_packed(), is_packed);
            assert_eq!(&*entry.unpacked().expect("whole"), pprof::encode(&profile));
            entry.raw.truncate(entry.raw.len() / 2);
            assert_eq!(entry.unpacked().is_err(), is_packed, "half of it");
        }
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        let entry = AcceptedProfile {
            service: "shop".into(),
            labels: vec![("region".into(), "eu".into()), ("zone".into(), "ü".into())],
            name: "process_cpu".into(),
            time: 7 * HOUR + 1,
            duration: 10,
            id: u128::MAX - 1,
            gone: vec![vec![("route".into(), "/a".into())], Vec::new()],
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
