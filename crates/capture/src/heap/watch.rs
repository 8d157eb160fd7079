//! Watches how close memory is to its limits, in the sampling path, which every burst of allocations takes.
//!
//! Asking the kernel takes microseconds, so it is done when the heap may have come a quarter of the way closer to a
//! limit since the last time, and every [`PATIENCE`] samples anyway (memory is charged when it is touched, not when
//! it is allocated). Passing a threshold writes the emergency file; the next threshold is halfway between there and
//! the limit, up to a last one right below it. When memory falls again, or the limit changes, everything starts over
//! with the first threshold. Page cache that the kernel can drop does not count.

use super::cgroup::{self, Cgroup};
use super::emergency;
use super::kept_file::keeping_errno;
use super::ledger::{Field, Ledger, Reason, RecordId};
use crate::clock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

/// The most samples between two looks.
const PATIENCE: u64 = 32;

/// While nothing comes closer to the limit, the file is written no more often than this.
const BETWEEN_EMERGENCIES: u64 = 1_000_000_000;

/// Refusals that come faster than this are reported once.
const BETWEEN_REFUSALS: u64 = 1_000_000_000;

/// Null before the start; never freed.
static WATCHED: AtomicPtr<Box<[Limit]>> = AtomicPtr::new(std::ptr::null_mut());
static BYTES_TO_GO: AtomicI64 = AtomicI64::new(0);
static SAMPLES: AtomicU64 = AtomicU64::new(0);
static IS_LOOKING: AtomicBool = AtomicBool::new(false);
static LAST_REFUSAL: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The part of a limit beyond which there is an emergency.
    pub(super) threshold: f64,
    /// A limit for the memory of this process, in bytes.
    pub(super) named: Option<u64>,
}

struct Limit {
    kind: WatchedLimit,
    thresholds: Thresholds,
}

/// When a limit is near.
struct Thresholds {
    /// The part of the limit at which the first threshold is.
    part: f64,
    /// The limit they are for.
    limit: AtomicU64,
    /// The next one, in bytes.
    next: AtomicU64,
    /// The monotonic clock at the last emergency.
    last: AtomicU64,
}

enum WatchedLimit {
    Cgroup(Cgroup),
    AddressSpace,
    Named(u64),
}

/// Finds the limits there are, once, and starts watching them. One thread at a time.
pub(super) fn start(settings: Settings) {
    if watched().is_some() {
        return;
    }
    let cgroups = cgroup::with_limits().into_iter().map(WatchedLimit::Cgroup);
    let named = settings.named.map(WatchedLimit::Named);
    let kinds = cgroups.chain([WatchedLimit::AddressSpace]).chain(named);
    let limits = kinds.filter_map(|kind| {
        let limit = kind.limit()?;
        Some(Limit { kind, thresholds: Thresholds::new(settings.threshold, limit) })
    });
    let limits: Box<[Limit]> = limits.collect();
    WATCHED.store(Box::into_raw(Box::new(limits)), Ordering::Release);
}

fn watched() -> Option<&'static [Limit]> {
    // SAFETY: null, or what was stored by `start`, which lives as long as the process.
    unsafe { WATCHED.load(Ordering::Acquire).as_ref() }.map(|limits| &**limits)
}

/// In the child of a fork: forgets the thread that looked, which does not exist there.
pub(super) fn forget_watch_thread() {
    IS_LOOKING.store(false, Ordering::Release);
}

/// Describes the limits that are watched, for people.
pub(super) fn describe() -> Vec<String> {
    let describe = |limit: &Limit| {
        let bytes = limit.kind.limit().unwrap_or(0);
        match &limit.kind {
            WatchedLimit::Cgroup(_) => format!("control group {bytes} bytes"),
            WatchedLimit::AddressSpace => format!("address space {bytes} bytes"),
            WatchedLimit::Named(_) => format!("configured {bytes} bytes"),
        }
    };
    watched().map_or_else(Vec::new, |limits| limits.iter().map(describe).collect())
}

/// Called after a sample that stands for `bytes` was taken, of an object of `size` that is about to be filled.
#[inline]
pub(super) fn after_sample(ledger: &Ledger, bytes: u64, size: usize) {
    let Some(limits) = watched().filter(|limits| !limits.is_empty()) else { return };
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let to_go = BYTES_TO_GO.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
    let is_due = SAMPLES.fetch_add(1, Ordering::Relaxed).is_multiple_of(PATIENCE);
    if (to_go <= 0 || is_due) && !IS_LOOKING.swap(true, Ordering::Acquire) {
        keeping_errno(|| look(limits, ledger, size as u64));
        IS_LOOKING.store(false, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn look(limits: &[Limit], ledger: &Ledger, size: u64) {
    let mut nearest = i64::MAX;
    let now = clock::monotonic_nanos();
    for Limit { kind, thresholds } in limits {
        // Limits are sometimes changed, or removed.
        let (Some(mut used), Some(limit)) = (kind.used(ledger), kind.limit()) else { continue };
        if thresholds.may_be_near(limit, used.saturating_add(size)) {
            used = used.saturating_sub(kind.reclaimable());
        }
        if thresholds.is_emergency(limit, used, size, now) {
            emergency::write(ledger, kind.reason(), limit, RecordId::NONE);
        }
        let distance = thresholds.next.load(Ordering::Relaxed).saturating_sub(used);
        nearest = nearest.min(i64::try_from(distance).unwrap_or(i64::MAX));
    }
    BYTES_TO_GO.store((nearest / 4).max(64 << 10), Ordering::Relaxed);
}

impl Thresholds {
    fn new(part: f64, limit: u64) -> Self {
        let next = AtomicU64::new((limit as f64 * part) as u64);
        Self { part, limit: AtomicU64::new(limit), next, last: AtomicU64::new(0) }
    }

    fn first(&self, limit: u64) -> u64 {
        (limit as f64 * self.part) as u64
    }

    /// Returns the use of memory below which the first threshold counts again.
    fn calm(&self, limit: u64) -> u64 {
        let first = self.first(limit);
        first - first / 20
    }

    /// Returns whether it is worth asking how much of the used memory could be reclaimed.
    fn may_be_near(&self, limit: u64, used: u64) -> bool {
        used >= self.calm(limit)
    }

    /// Returns whether `used` bytes, and `size` more that are about to be filled, pass a threshold; sets the next
    /// one.
    fn is_emergency(&self, limit: u64, used: u64, size: u64, now: u64) -> bool {
        let is_new = self.limit.swap(limit, Ordering::Relaxed) != limit;
        if is_new || used < self.calm(limit) {
            self.next.store(self.first(limit), Ordering::Relaxed);
        }
        let next = self.next.load(Ordering::Relaxed);
        if used.saturating_add(size) < next {
            return false;
        }
        let highest = (limit - limit / 64).max(self.first(limit));
        let step = (limit.saturating_sub(used) / 2).max(limit / 64);
        let after = used.saturating_add(step).min(highest);
        // Requested memory may never be touched: only used memory sets the next threshold.
        let comes_closer = used >= next && after > next;
        let last = self.last.load(Ordering::Relaxed);
        if !comes_closer && last != 0 && now.saturating_sub(last) < BETWEEN_EMERGENCIES {
            return false;
        }
        if comes_closer {
            self.next.store(after, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
        true
    }
}

impl WatchedLimit {
    fn limit(&self) -> Option<u64> {
        match self {
            Self::Cgroup(cgroup) => cgroup.limit(),
            Self::Named(limit) => Some(*limit),
            Self::AddressSpace => {
                let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                // SAFETY: the kernel fills in a valid struct.
                let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } != 0;
                (!failed && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
            }
        }
    }

    fn used(&self, ledger: &Ledger) -> Option<u64> {
        match self {
            Self::Cgroup(cgroup) => cgroup.usage(),
            Self::AddressSpace => statm().map(|(address_space, _)| address_space),
            Self::Named(_) => {
                let resident = statm().map_or(0, |(_, resident)| resident);
                Some(resident.max(i64::max(ledger.get(Field::LiveBytes) as i64, 0) as u64))
            }
        }
    }

    fn reclaimable(&self) -> u64 {
        if let Self::Cgroup(cgroup) = self { cgroup.reclaimable() } else { 0 }
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Cgroup(_) => Reason::Cgroup,
            Self::AddressSpace => Reason::AddressSpace,
            Self::Named(_) => Reason::Named,
        }
    }
}

/// Returns the resident memory of this process in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    statm().map(|(_, resident)| resident)
}

/// Returns the address space and the resident memory of this process in bytes.
fn statm() -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let text = cgroup::read(c"/proc/self/statm", &mut buffer);
    let mut numbers = text.split(|&byte| byte == b' ').map_while(cgroup::number);
    let pages = (numbers.next()?, numbers.next()?);
    // SAFETY: reads a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    Some((pages.0.saturating_mul(page), pages.1.saturating_mul(page)))
}

/// Returns whether to report an allocation that is refused `now`, on the monotonic clock: those that follow fast are
/// not.
pub(super) fn is_refusal_new(now: u64) -> bool {
    let last = LAST_REFUSAL.load(Ordering::Relaxed);
    let is_new = last == 0 || now.saturating_sub(last) >= BETWEEN_REFUSALS;
    if is_new {
        LAST_REFUSAL.store(now, Ordering::Relaxed);
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000 << 20;
    const SECOND: u64 = 1_000_000_000;

    fn is_emergency(thresholds: &Thresholds, limit: u64, used_mib: u64, size_mib: u64, second: u64) -> bool {
        thresholds.is_emergency(limit, used_mib << 20, size_mib << 20, second * SECOND + 1)
    }

    #[test]
    fn each_step_towards_the_limit_is_reported_once() {
        let thresholds = Thresholds::new(0.9, LIMIT);
        let told: Vec<u64> =
            (850..=1000).filter(|&used| is_emergency(&thresholds, LIMIT, used, 0, 1)).collect();
        assert_eq!(told, [900, 950, 975]);
        assert!(!is_emergency(&thresholds, LIMIT, 999, 0, 1), "just told");
        assert!(is_emergency(&thresholds, LIMIT, 999, 0, 3), "and told again later, for as long as it lasts");
    }

    #[test]
    fn after_a_false_alarm_the_next_one_is_reported() {
        let thresholds = Thresholds::new(0.9, LIMIT);
        assert!(is_emergency(&thresholds, LIMIT, 999, 0, 1));
        assert!(!is_emergency(&thresholds, LIMIT, 880, 0, 1), "not calm yet");
        assert!(!is_emergency(&thresholds, LIMIT, 100, 0, 1));
        assert!(is_emergency(&thresholds, LIMIT, 900, 0, 1), "the first threshold again");
    }

    #[test]
    fn an_object_that_is_never_filled_does_not_end_the_watch() {
        let thresholds = Thresholds::new(0.9, LIMIT);
        assert!(is_emergency(&thresholds, LIMIT, 100, 8000, 1), "it may be filled at once");
        assert!(!is_emergency(&thresholds, LIMIT, 100, 8000, 1), "told once a second");
        assert!(is_emergency(&thresholds, LIMIT, 900, 0, 1));
        assert!(is_emergency(&thresholds, LIMIT, 950, 0, 1));
    }

    #[test]
    fn a_limit_that_is_lowered_or_raised() {
        let thresholds = Thresholds::new(0.9, LIMIT);
        assert!(!is_emergency(&thresholds, LIMIT, 500, 0, 1));
        assert!(is_emergency(&thresholds, LIMIT / 2, 500, 0, 1));
        assert!(!is_emergency(&thresholds, LIMIT * 2, 990, 0, 1));
        assert!(is_emergency(&thresholds, LIMIT * 2, 1801, 0, 1));
    }
}
