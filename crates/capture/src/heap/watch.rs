//! How near the end is: asked in the sampling path, where every burst of allocations comes by.
//!
//! Asking the kernel takes microseconds, so it is done when the heap may have come a quarter of the way
//! closer to a limit since the last time, and every [`PATIENCE`] samples anyhow (memory is charged when it is
//! touched, not when it is allocated). Passing a threshold writes the emergency file; the next threshold is
//! half way between there and the limit.

use super::cgroup::{self, Cgroup};
use super::emergency::{self, Reason};
use super::ledger::{Field, Ledger, RecordId};
use super::thread::Inside;
use super::tracker;
use crate::clock;
use flamelet_unwind::live;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

/// Samples between two looks, at most.
const PATIENCE: u64 = 32;

/// Refusals that come faster than this are told once.
const BETWEEN_REFUSALS: u64 = 1_000_000_000;

/// Null before the start; never given back.
static WATCHED: AtomicPtr<Box<[Limit]>> = AtomicPtr::new(std::ptr::null_mut());
static BYTES_TO_GO: AtomicI64 = AtomicI64::new(0);
static SAMPLES: AtomicU64 = AtomicU64::new(0);
static IS_LOOKING: AtomicBool = AtomicBool::new(false);
static LAST_REFUSAL: AtomicU64 = AtomicU64::new(0);

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The part of a limit whose passing is an emergency.
    pub(super) threshold: f64,
    /// A limit for the memory of this process, in bytes.
    pub(super) named: Option<u64>,
}

struct Limit {
    kind: Kind,
    /// The next threshold, in bytes.
    next: AtomicU64,
}

enum Kind {
    Cgroup(Cgroup),
    AddressSpace,
    Named(u64),
}

/// Finds the limits there are and starts to watch them. They are found once. One thread at a time.
pub(super) fn start(settings: Settings) {
    if watched().is_some() {
        return;
    }
    let cgroups = cgroup::with_limits().into_iter().map(Kind::Cgroup);
    let named = settings.named.map(Kind::Named);
    let kinds = cgroups.chain([Kind::AddressSpace]).chain(named);
    let limits = kinds.filter_map(|kind| {
        let limit = kind.limit()?;
        let next = AtomicU64::new((limit as f64 * settings.threshold) as u64);
        Some(Limit { kind, next })
    });
    let limits: Box<[Limit]> = limits.collect();
    WATCHED.store(Box::into_raw(Box::new(limits)), Ordering::Release);
}

fn watched() -> Option<&'static [Limit]> {
    // SAFETY: null, or what was stored by `start`, which lives as long as the process.
    unsafe { WATCHED.load(Ordering::Acquire).as_ref() }.map(|limits| &**limits)
}

/// In the child of a fork: the thread that looked does not exist there.
pub(super) fn nobody_looks() {
    IS_LOOKING.store(false, Ordering::Release);
}

/// The limits that are watched, for people.
pub(super) fn describe() -> Vec<String> {
    let describe = |limit: &Limit| {
        let bytes = limit.kind.limit().unwrap_or(0);
        match &limit.kind {
            Kind::Cgroup(_) => format!("control group {bytes} bytes"),
            Kind::AddressSpace => format!("address space {bytes} bytes"),
            Kind::Named(_) => format!("named {bytes} bytes"),
        }
    };
    watched().map_or_else(Vec::new, |limits| limits.iter().map(describe).collect())
}

/// A sample that stands for `bytes` was taken, of an object of `size` that is about to be filled.
#[inline]
pub(super) fn after_sample(ledger: &Ledger, bytes: u64, size: usize) {
    let Some(limits) = watched().filter(|limits| !limits.is_empty()) else { return };
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let to_go = BYTES_TO_GO.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
    let is_due = SAMPLES.fetch_add(1, Ordering::Relaxed).is_multiple_of(PATIENCE);
    if (to_go <= 0 || is_due) && !IS_LOOKING.swap(true, Ordering::Acquire) {
        look(limits, ledger, size as u64);
        IS_LOOKING.store(false, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn look(limits: &[Limit], ledger: &Ledger, size: u64) {
    let mut nearest = i64::MAX;
    for limit in limits {
        let Some(used) = limit.kind.used(ledger) else { continue };
        let used = used.saturating_add(size);
        let next = limit.next.load(Ordering::Relaxed);
        if used >= next {
            limit.passed(ledger, used);
        }
        let distance = limit.next.load(Ordering::Relaxed).saturating_sub(used);
        nearest = nearest.min(i64::try_from(distance).unwrap_or(i64::MAX));
    }
    BYTES_TO_GO.store((nearest / 4).max(64 << 10), Ordering::Relaxed);
}

impl Limit {
    fn passed(&self, ledger: &Ledger, used: u64) {
        // Page cache that the kernel takes back first is not an emergency; and limits are raised at times.
        let used = used.saturating_sub(self.kind.reclaimable());
        let Some(limit) = self.kind.limit() else { return };
        let next = self.next.load(Ordering::Relaxed);
        if used < next {
            return;
        }
        emergency::write(ledger, self.kind.reason(), limit, RecordId::NONE);
        let step = (limit.saturating_sub(used) / 2).max(limit / 64);
        self.next.store(used.saturating_add(step), Ordering::Relaxed);
    }
}

impl Kind {
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

/// The address space and the resident memory of this process in bytes.
fn statm() -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let text = cgroup::read(c"/proc/self/statm", &mut buffer);
    let mut numbers = text.split(|&byte| byte == b' ').map_while(cgroup::number);
    let pages = (numbers.next()?, numbers.next()?);
    // SAFETY: asks for a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    Some((pages.0.saturating_mul(page), pages.1.saturating_mul(page)))
}

/// The inner allocator had no `size` bytes: the emergency file is written before anybody is told.
#[cold]
#[inline(never)]
pub(super) fn refused(size: usize) {
    let (Some(tracker), Some(_inside)) = (tracker::tracker(), Inside::enter_first()) else { return };
    let now = clock::monotonic_nanos();
    let last = LAST_REFUSAL.load(Ordering::Relaxed);
    if last != 0 && now.saturating_sub(last) < BETWEEN_REFUSALS {
        return;
    }
    LAST_REFUSAL.store(now, Ordering::Relaxed);
    let mut frames = [0; 128];
    let unwound = live::unwind_here(&mut frames);
    let stack = tracker.ledger.stack(&frames[1.min(unwound.depth)..unwound.depth]);
    emergency::write(&tracker.ledger, Reason::Refused, size as u64, stack);
}
