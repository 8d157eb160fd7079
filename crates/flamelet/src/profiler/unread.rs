//! Finished answers that wait for their clients.

use std::sync::atomic::Ordering;

use super::Profiler;

/// Answers up to this size are not counted: a connection itself takes as much.
const SMALL: usize = 16 << 10;

/// The body of an answer, counted until its last byte is being sent or its client is gone.
pub(crate) struct Unread {
    body: Vec<u8>,
    /// How many bytes are counted.
    size: usize,
    profiler: Profiler,
}

impl Profiler {
    /// Returns the body, counted, or `None` if too many are waiting already. A single one may have any size.
    pub(crate) fn unread(&self, body: Vec<u8>) -> Option<Unread> {
        let (size, most) = (counted(&body), self.limits().max_unread);
        let more = |unread: usize| {
            let sum = unread.saturating_add(size);
            (size == 0 || unread == 0 || sum <= most).then_some(sum)
        };
        self.shared().counters.unread.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Unread { body, size, profiler: self.clone() })
    }

    /// Returns a body that is not counted, for a refusal.
    pub(crate) fn uncounted(&self, body: Vec<u8>) -> Unread {
        Unread { body, size: 0, profiler: self.clone() }
    }
}

fn counted(body: &[u8]) -> usize {
    if body.len() <= SMALL { 0 } else { body.len() }
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.profiler.shared().counters.unread.fetch_sub(self.size, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_counted_until_they_are_read() {
        let profiler = Profiler::builder().max_unread(100_000).start().expect("started");
        let body = |size: usize| profiler.unread(vec![1; size]);
        let first = body(1_000_000).expect("one alone may have any size");
        assert_eq!(first.as_ref().len(), 1_000_000);
        assert!(profiler.has_many_unread() && body(20_000).is_none());
        assert!(body(SMALL).is_some(), "small ones are not counted");
        drop(first);
        let held: Vec<Unread> = (0..5).filter_map(|_| body(20_000)).collect();
        assert_eq!((held.len(), profiler.metrics().unread_bytes), (5, 100_000));
        assert!(body(20_000).is_none());
        drop(held);
        assert_eq!(profiler.metrics().unread_bytes, 0);
        assert!(!profiler.has_many_unread());
    }
}
