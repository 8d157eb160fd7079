//! What each trace allocated, freed, and held at the peak.

use rustc_hash::FxHashMap as HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TraceCost {
    pub(super) objects: i64,
    pub(super) bytes: i64,
    pub(super) temporary: i64,
    pub(super) live_objects: i64,
    pub(super) live_bytes: i64,
    pub(super) peak_bytes: i64,
    /// `live_bytes` has changed since the last peak.
    changed: bool,
}

/// Tracks allocations, and keeps what each trace held when the total was largest.
#[derive(Debug, Default)]
pub(super) struct TraceCosts {
    by_trace: Vec<TraceCost>,
    /// Traces whose live bytes have changed since the last peak.
    changed: Vec<u32>,
    live: i64,
    peak: i64,
    /// The most live bytes since [`TraceCosts::take_most`] was called.
    most: i64,
    /// The last allocation, if nothing was freed since: freeing it now makes it temporary.
    last: Option<u64>,
    pointers: HashMap<u64, (u32, u64)>,
    unknown_frees: u64,
}

impl TraceCosts {
    /// Allocates `size` bytes; a free refers to them by `key`.
    pub(super) fn allocate(&mut self, trace: u32, size: u64, key: u64) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let cost = self.cost(trace);
        cost.objects += 1;
        cost.bytes = cost.bytes.saturating_add(size);
        self.change(trace, 1, size);
        self.most = self.most.max(self.live);
        if self.live > self.peak {
            self.peak = self.live;
            self.keep_peak();
        }
        self.last = Some(key);
    }

    /// Frees what [`TraceCosts::allocate`] allocated.
    pub(super) fn free(&mut self, trace: u32, size: u64, key: u64) {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        if self.last.take() == Some(key) {
            self.cost(trace).temporary += 1;
        }
        self.change(trace, -1, -size);
    }

    /// Like [`TraceCosts::allocate`], but remembers the pointer.
    pub(super) fn allocate_pointer(&mut self, trace: u32, size: u64, pointer: u64) {
        self.pointers.insert(pointer, (trace, size));
        self.allocate(trace, size, pointer);
    }

    pub(super) fn free_pointer(&mut self, pointer: u64) {
        match self.pointers.remove(&pointer) {
            Some((trace, size)) => self.free(trace, size, pointer),
            None => self.unknown_frees += 1,
        }
    }

    /// Returns the most bytes that were live since the last call.
    pub(super) fn take_most(&mut self) -> u64 {
        let most = std::mem::replace(&mut self.most, self.live);
        u64::try_from(most).unwrap_or(0)
    }

    pub(super) fn unknown_frees(&self) -> u64 {
        self.unknown_frees
    }

    /// Returns how many pointers are known.
    pub(super) fn pointers(&self) -> usize {
        self.pointers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_trace.is_empty()
    }

    /// Returns the traces that ever allocated.
    pub(super) fn by_trace(&self) -> impl Iterator<Item = (u32, TraceCost)> {
        (0..).zip(&self.by_trace).filter(|(_, cost)| cost.objects > 0).map(|(trace, cost)| (trace, *cost))
    }

    fn cost(&mut self, trace: u32) -> &mut TraceCost {
        let at = trace as usize;
        if self.by_trace.len() <= at {
            self.by_trace.resize(at + 1, TraceCost::default());
        }
        &mut self.by_trace[at]
    }

    fn change(&mut self, trace: u32, objects: i64, bytes: i64) {
        let cost = self.cost(trace);
        cost.live_objects = cost.live_objects.saturating_add(objects);
        cost.live_bytes = cost.live_bytes.saturating_add(bytes);
        if !std::mem::replace(&mut cost.changed, true) {
            self.changed.push(trace);
        }
        self.live = self.live.saturating_add(bytes);
    }

    /// Updates the peak with what has changed since the last one, so that a new peak costs only that much.
    fn keep_peak(&mut self) {
        for trace in self.changed.drain(..) {
            let cost = &mut self.by_trace[trace as usize];
            cost.peak_bytes = cost.live_bytes;
            cost.changed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_every_trace_held_at_once() {
        let mut costs = TraceCosts::default();
        costs.allocate_pointer(1, 100, 0xa);
        costs.allocate_pointer(2, 50, 0xb);
        costs.free_pointer(0xa);
        costs.allocate_pointer(3, 120, 0xc);
        costs.free_pointer(0xc);
        costs.free_pointer(0xdead);
        let got: Vec<_> =
            costs.by_trace().map(|(trace, cost)| (trace, cost.peak_bytes, cost.temporary)).collect();
        assert_eq!(got, [(1, 0, 0), (2, 50, 0), (3, 120, 1)]);
        assert_eq!(costs.unknown_frees(), 1);
    }
}
