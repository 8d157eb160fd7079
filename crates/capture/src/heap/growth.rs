//! What grows, window after window: unlike noise, a leak never turns back.

use super::ledger::RowId;
use super::ledger::image::{Counts, Site};
use super::snapshot::{Grown, OwnLabel, Snapshot};
use super::thread::Inside;
use crate::Result;
use flamelet_profile::Profile;
use flamelet_profile::trend::{Trend, trend};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The last few moments of the heap. Call [`Windows::observe`] at regular intervals, then [`Windows::suspects`].
///
/// Whether a site grows steadily is decided by a test over its live bytes, see [`trend`](mod@flamelet_profile::trend).
/// With fewer than four moments nothing can be said.
#[derive(Debug)]
pub struct Windows {
    keep: usize,
    moments: VecDeque<HeapMoment>,
    last: Option<Snapshot>,
}

#[derive(Debug)]
struct HeapMoment {
    time_nanos: i64,
    live: FxHashMap<RowId, Counts>,
}

impl Windows {
    /// Keeps the last `keep` moments, at least four.
    pub fn new(keep: usize) -> Self {
        Self { keep: keep.max(4), moments: VecDeque::new(), last: None }
    }

    /// Records the heap as it is now. After a reset of the counts the windows start over.
    pub fn observe(&mut self) -> Result<()> {
        let snapshot = Snapshot::take()?;
        self.push(snapshot);
        Ok(())
    }

    /// Returns how many moments are kept.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Returns whether nothing was observed yet.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Returns the sites that grew steadily, with what they grew by since the first moment kept, largest first. The
    /// label `trend` is the share of pairs of moments that rose minus those that fell, in percent.
    pub fn suspects(&self) -> Option<Profile> {
        self.grown(|trend| trend.is_some_and(|trend| trend.is_steady))
    }

    /// Returns all sites that grew since the first moment kept, largest first. With four or more moments they have
    /// the label `trend` (see [`Windows::suspects`]), and the label `steady` says `yes` or `no`.
    pub fn growth(&self) -> Option<Profile> {
        self.grown(|_| true)
    }

    fn grown(&self, wanted: impl Fn(Option<Trend>) -> bool) -> Option<Profile> {
        let _inside = Inside::enter();
        let (first, last) = (self.moments.front()?, self.last.as_ref()?);
        let grown = |site: &Site| -> Option<Grown> {
            let series: Vec<i64> = self.moments.iter().map(|moment| moment.bytes(site.id)).collect();
            let trend = trend(&series);
            let before = first.live.get(&site.id).copied().unwrap_or_default();
            let grown =
                Counts { objects: site.live.objects - before.objects, bytes: site.live.bytes - before.bytes };
            wanted(trend).then(|| (*site, grown, trend.map_or_else(Vec::new, labels)))
        };
        let grown = last.sites().iter().filter_map(grown).collect();
        Some(last.ranked_growth(grown, last.time_nanos().saturating_sub(first.time_nanos)))
    }

    fn push(&mut self, snapshot: Snapshot) {
        let _inside = Inside::enter();
        if self.last.as_ref().is_some_and(|last| !snapshot.continues(last)) {
            self.moments.clear();
        }
        let live = snapshot.sites().iter().filter(|site| site.live.bytes > 0);
        let live = live.map(|site| (site.id, site.live)).collect();
        self.moments.push_back(HeapMoment { time_nanos: snapshot.time_nanos(), live });
        if self.moments.len() > self.keep {
            self.moments.pop_front();
        }
        self.last = Some(snapshot);
    }
}

impl HeapMoment {
    fn bytes(&self, site: RowId) -> i64 {
        self.live.get(&site).map_or(0, |counts| counts.bytes)
    }
}

fn labels(trend: Trend) -> Vec<OwnLabel<'static>> {
    let steady = if trend.is_steady { "yes" } else { "no" };
    vec![OwnLabel::Number("trend", trend.percent, "percent"), OwnLabel::Text("steady", steady)]
}
