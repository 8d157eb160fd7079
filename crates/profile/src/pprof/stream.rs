//! Decodes a message that comes in pieces, so that a large file is never in memory as a whole: its samples are read at
//! once, and only the other fields are kept until the end.

use super::read::decode_rest;
use super::samples::SampleReader;
use super::schema;
use crate::budget::Loan;
use crate::protobuf::{Fields, varint};
use crate::{Budget, ErrorKind, Profile, Result};

/// Decodes a pprof message that comes in pieces of any size.
pub struct StreamDecoder {
    samples: SampleReader,
    /// The fields that are not samples, and after them the beginning of a field whose end has not arrived yet.
    rest: Vec<u8>,
    /// Where in `rest` that field begins.
    begun: usize,
    loan: Loan,
    budget: Budget,
}

impl StreamDecoder {
    /// Creates a decoder that charges its memory to `budget`.
    pub fn new(budget: &Budget) -> Result<Self> {
        let loan = budget.lend(0)?;
        Ok(Self {
            samples: SampleReader::new(budget),
            rest: Vec::new(),
            begun: 0,
            loan,
            budget: budget.clone(),
        })
    }

    /// Takes the next piece of the message.
    pub fn add(&mut self, piece: &[u8]) -> Result<()> {
        let mut fields = Fields::new(self.complete(piece)?);
        loop {
            let before = fields.rest();
            match fields.next() {
                Ok(None) => return Ok(()),
                Ok(Some((schema::profile::SAMPLE, value))) => self.samples.add(value.bytes()?)?,
                Ok(Some(_)) => {
                    self.keep(&before[..before.len() - fields.rest().len()])?;
                    self.begun = self.rest.len();
                }
                // Its end comes with the next piece.
                Err(error) if error.kind() == ErrorKind::Truncated => return self.keep(before),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the profile, after the last piece.
    pub fn finish(self) -> Result<Profile> {
        let Self { samples, rest, begun, loan: _loan, budget } = self;
        if begun < rest.len() {
            Fields::new(&rest[begun..]).next()?;
        }
        decode_rest(&rest, samples, &budget)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<()> {
        self.loan.add(bytes.len())?;
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// Completes the field that the piece before began, and returns what follows it.
    fn complete<'p>(&mut self, mut piece: &'p [u8]) -> Result<&'p [u8]> {
        while self.begun < self.rest.len() {
            let missing = missing(&self.rest[self.begun..])?;
            if missing == 0 {
                self.end_field()?;
            } else if piece.is_empty() {
                break;
            }
            let (more, after) = piece.split_at(missing.min(piece.len()));
            self.keep(more)?;
            piece = after;
        }
        Ok(piece)
    }

    /// Takes the field that has become complete.
    fn end_field(&mut self) -> Result<()> {
        if let Some((schema::profile::SAMPLE, value)) = Fields::new(&self.rest[self.begun..]).next()? {
            self.samples.add(value.bytes()?)?;
            self.rest.truncate(self.begun);
        }
        self.begun = self.rest.len();
        Ok(())
    }
}

/// Returns how many bytes at least the field is short of that begins here.
fn missing(begun: &[u8]) -> Result<usize> {
    match Fields::new(begun).next() {
        Ok(_) => return Ok(0),
        Err(error) if error.kind() == ErrorKind::Truncated => {}
        Err(error) => return Err(error),
    }
    let mut rest = begun;
    let has_length = varint(&mut rest).is_ok_and(|key| key & 7 == 2);
    let length = if has_length { varint(&mut rest).ok() } else { None };
    let missing = length.map(|length| length.saturating_sub(rest.len() as u64));
    Ok(missing.map_or(1, |missing| usize::try_from(missing).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::MessageWriter;
    use crate::{Limits, pprof};

    #[test]
    fn what_is_missing_of_a_field() {
        let mut writer = MessageWriter::default();
        writer.bytes(3, &[7; 300]);
        let field = writer.into_bytes();
        assert_eq!(missing(&field[..1]).unwrap(), 1, "the length is not known yet");
        assert_eq!(missing(&field[..3]).unwrap(), 300);
        assert_eq!(missing(&field[..200]).unwrap(), 103);
        assert_eq!(missing(&field).unwrap(), 0);
        assert_eq!(missing(&[0x09, 1, 2]).unwrap(), 1, "a fixed number");
        assert_eq!(missing(&[0]).unwrap_err().kind(), ErrorKind::WrongFormat);
    }

    #[test]
    fn only_what_is_no_sample_is_kept() {
        let budget = Budget::new(Limits::default());
        let mut decoder = StreamDecoder::new(&budget).unwrap();
        let sample = [0x12, 4, 0x12, 2, 1, 2];
        for piece in sample.repeat(1000).chunks(7) {
            decoder.add(piece).unwrap();
            assert!(decoder.rest.len() <= sample.len());
        }
        decoder.add(&[0x0a, 0, 0x0a, 0]).unwrap();
        assert_eq!(decoder.rest.len(), 4);
        assert_eq!(decoder.finish().unwrap().sample_count(), 1000);
    }

    #[test]
    fn an_early_end_is_an_error() {
        let decode = |pieces: &[&[u8]]| {
            let mut decoder = StreamDecoder::new(&Budget::new(Limits::default())).unwrap();
            pieces.iter().try_for_each(|piece| decoder.add(piece)).and_then(|()| decoder.finish())
        };
        let message = pprof::encode(&crate::ProfileBuilder::new(&[("cpu", "ns")]).finish());
        let (begin, end) = message.split_at(message.len() - 1);
        assert!(decode(&[begin, end]).is_ok());
        assert_eq!(decode(&[begin]).unwrap_err().kind(), ErrorKind::Truncated);
        assert_eq!(decode(&[]).unwrap_err().to_string(), "the file is empty");
    }
}
