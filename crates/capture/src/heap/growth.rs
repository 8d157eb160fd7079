//! What grows, window after window: a leak tells itself from noise by never turning back.

use super::ledger::RowId;
use super::ledger::image::{Counts, Site};
use super::snapshot::{Grown, OwnLabel, Snapshot};
use super::thread::Inside;
use crate::Result;
use flamelet_profile::Profile;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The last few moments of the heap. Call [`Windows::observe`] at even intervals, then ask for
/// [`Windows::suspects`].
///
/// Whether a site grows steadily is decided by the Mann–Kendall test over its live bytes: of all pairs of
/// moments, in how many was the later one higher? With fewer than four windows nothing can be said.
#[derive(Debug)]
pub struct Windows {
    keep: usize,
    moments: VecDeque<Moment>,
    last: Option<Snapshot>,
}

#[derive(Debug)]
struct Moment {
    time_nanos: i64,
    live: FxHashMap<RowId, Counts>,
}

/// A site that grew by chance would look steady once in twenty times.
const STEADY: f64 = 1.645;

impl Windows {
    /// Keeps the last `keep` moments, at least four.
    pub fn new(keep: usize) -> Self {
        Self { keep: keep.max(4), moments: VecDeque::new(), last: None }
    }

    /// Looks at the heap now. After a reset of the counts the windows begin anew.
    pub fn observe(&mut self) -> Result<()> {
        let snapshot = Snapshot::take()?;
        self.push(snapshot);
        Ok(())
    }

    /// How many moments are kept at present.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether nothing was observed yet.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// The sites that grew steadily, with what they grew by since the first moment kept, largest first. The
    /// label `trend` is the share of pairs of moments that rose minus those that fell, in percent.
    pub fn suspects(&self) -> Option<Profile> {
        let _inside = Inside::enter();
        let (first, last) = (self.moments.front()?, self.last.as_ref()?);
        let suspect = |site: &Site| -> Option<Grown> {
            let series: Vec<i64> = self.moments.iter().map(|moment| moment.bytes(site.id)).collect();
            let trend = trend(&series)?;
            let before = first.live.get(&site.id).copied().unwrap_or_default();
            let grown =
                Counts { objects: site.live.objects - before.objects, bytes: site.live.bytes - before.bytes };
            Some((*site, grown, vec![OwnLabel::Number("trend", trend, "percent")]))
        };
        let grown = last.sites().iter().filter_map(suspect).collect();
        Some(last.ranked_growth(grown, last.time_nanos().saturating_sub(first.time_nanos)))
    }

    fn push(&mut self, snapshot: Snapshot) {
        let _inside = Inside::enter();
        if self.last.as_ref().is_some_and(|last| !snapshot.continues(last)) {
            self.moments.clear();
        }
        let live = snapshot.sites().iter().filter(|site| site.live.bytes > 0);
        let live = live.map(|site| (site.id, site.live)).collect();
        self.moments.push_back(Moment { time_nanos: snapshot.time_nanos(), live });
        if self.moments.len() > self.keep {
            self.moments.pop_front();
        }
        self.last = Some(snapshot);
    }
}

impl Moment {
    fn bytes(&self, site: RowId) -> i64 {
        self.live.get(&site).map_or(0, |counts| counts.bytes)
    }
}

/// The trend of a series in percent, if it rises steadily.
fn trend(series: &[i64]) -> Option<i64> {
    let count = series.len() as f64;
    if series.len() < 4 {
        return None;
    }
    let mut score = 0i64;
    for (at, early) in series.iter().enumerate() {
        score += series[at + 1..].iter().map(|late| (late - early).signum()).sum::<i64>();
    }
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    let is_steady = (score - 1) as f64 / deviation >= STEADY;
    is_steady.then(|| (score as f64 * 200.0 / (count * (count - 1.0))).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::trend;

    #[test]
    fn a_leak_is_steady_and_noise_is_not() {
        assert_eq!(trend(&[1, 2, 3, 4]), Some(100));
        assert_eq!(trend(&[1, 2, 3]), None);
        assert_eq!(trend(&[5, 5, 5, 5, 5, 5]), None);
        assert_eq!(trend(&[1, 9, 2, 8, 3, 7, 4]), None);
        // A saw that rises all the same.
        assert!(trend(&[1, 3, 2, 4, 3, 5, 4, 6, 5, 7]).is_some());
        // One step is not growth.
        assert_eq!(trend(&[0, 0, 0, 0, 0, 0, 0, 9]), None);
        assert_eq!(trend(&[9, 8, 7, 6]), None);
    }
}
