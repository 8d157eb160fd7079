//! Finds the fields of a message again without visiting all others.

use crate::protobuf::Fields;

/// Where the fields of each number are, so that a walk visits only those that it needs: writers put the fields of one
/// number next to each other.
pub(super) struct Runs<'m> {
    message: &'m [u8],
    /// The number of the fields of each run, and where in the message it begins.
    starts: Vec<(u32, usize)>,
}

impl<'m> Runs<'m> {
    /// A message that mixes its fields more than this is visited as a whole.
    const MOST: usize = 1024;

    pub(super) fn new(message: &'m [u8]) -> Self {
        Self { message, starts: Vec::new() }
    }

    /// Adds the next field, which begins at `start`.
    pub(super) fn add(&mut self, number: u32, start: usize) {
        if self.starts.len() <= Self::MOST && self.starts.last().is_none_or(|(last, _)| *last != number) {
            self.starts.push((number, start));
        }
    }

    /// Returns the runs that have fields of these numbers; fields of other numbers may be among them.
    pub(super) fn with(&self, is_wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = Fields<'m>> {
        let is_mixed = self.starts.len() > Self::MOST;
        let starts = if is_mixed { &[][..] } else { &self.starts[..] };
        let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([self.message.len()]);
        let runs = starts.iter().zip(ends).filter(move |((number, _), _)| is_wanted(*number));
        let whole = is_mixed.then(|| Fields::new(self.message));
        runs.map(|((_, start), end)| Fields::new(&self.message[*start..end])).chain(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::MessageWriter;

    /// Returns the values of the fields 3 in the runs that have them, and how many fields were visited for that.
    fn visited(numbers: &[u32]) -> (Vec<u64>, usize) {
        let mut writer = MessageWriter::default();
        numbers.iter().zip(1..).for_each(|(&number, value)| writer.uint(number, value));
        let message = writer.into_bytes();
        let mut runs = Runs::new(&message);
        let mut fields = Fields::new(&message);
        let mut start = 0;
        while let Some((number, _)) = fields.next().expect("our own message") {
            runs.add(number, start);
            start = message.len() - fields.rest().len();
        }
        let (mut values, mut count) = (Vec::new(), 0);
        for mut fields in runs.with(|number| number == 3) {
            while let Some((number, value)) = fields.next().expect("our own message") {
                count += 1;
                values.extend((number == 3).then(|| value.uint().expect("a number")));
            }
        }
        (values, count)
    }

    #[test]
    fn only_the_runs_that_are_wanted_are_visited() {
        assert_eq!(visited(&[1, 3, 3, 2, 2, 2, 3]), (vec![2, 3, 7], 3));
        assert_eq!(visited(&[1, 2]), (vec![], 0));
        assert_eq!(visited(&[]), (vec![], 0));
    }

    #[test]
    fn a_mixed_message_is_visited_as_a_whole() {
        let numbers = [1, 3].repeat(2000);
        let (values, count) = visited(&numbers);
        assert_eq!((values.len(), count), (2000, 4000));
        assert!(values.iter().zip(1..).all(|(&value, at)| value == 2 * at), "in their order");
    }
}
