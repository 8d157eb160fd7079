//! Statistics of system calls: every call is counted and timed.

use rustc_hash::FxHashMap;

use super::arguments::ArgumentsId;
use super::latencies::Latencies;
use crate::events::ring_records::u64_at;

/// The statistics of one system call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallStats {
    /// How many calls returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How long they took together, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub longest_nanos: u64,
    /// How long each took.
    pub latencies: Latencies,
    /// How often each error number was returned.
    pub errors_by_number: Vec<(i32, u64)>,
}

impl SyscallStats {
    /// Adds a call that returned `result` after `nanos`, or `None` if its start was not seen.
    fn add(&mut self, result: i64, nanos: Option<u64>) {
        self.calls += 1;
        if let Some(nanos) = nanos {
            self.nanos += nanos;
            self.longest_nanos = self.longest_nanos.max(nanos);
            self.latencies.add(nanos);
        }
        if let Some(number) = error_number(result) {
            self.errors += 1;
            match self.errors_by_number.iter_mut().find(|(known, _)| *known == number) {
                Some((_, count)) => *count += 1,
                None => self.errors_by_number.push((number, 1)),
            }
        }
    }

    /// Returns the duration that `share` (0 to 1) of the calls did not exceed, within 1 %.
    pub fn quantile_nanos(&self, share: f64) -> u64 {
        self.latencies.quantile_nanos(share).min(self.longest_nanos)
    }
}

/// Returns the error number in a call's result.
fn error_number(result: i64) -> Option<i32> {
    (-4095..0).contains(&result).then_some(-result as i32)
}

/// Calls that a thread made with the same arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallKey {
    /// The row of the thread.
    pub(crate) thread: u32,
    pub(crate) number: i64,
    /// `None` unless arguments are recorded.
    pub(crate) arguments: Option<ArgumentsId>,
}

/// What some calls add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTotals {
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) nanos: u64,
}

impl CallTotals {
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.nanos += other.nanos;
    }
}

/// All system calls: totals by thread, and details of each call. The details are too large to be kept for each of many
/// short threads.
#[derive(Debug, Default)]
pub(crate) struct SyscallTable {
    pub(crate) by_thread: FxHashMap<CallKey, CallTotals>,
    pub(crate) by_number: FxHashMap<i64, SyscallStats>,
}

impl SyscallTable {
    /// Adds a call that returned `result` after `nanos`, or `None` if its start was not seen.
    pub(super) fn add(&mut self, key: CallKey, result: i64, nanos: Option<u64>) {
        let errors = u64::from(error_number(result).is_some());
        let one = CallTotals { calls: 1, errors, nanos: nanos.unwrap_or(0) };
        self.by_thread.entry(key).or_default().add(one);
        self.by_number.entry(key.number).or_default().add(result, nanos);
    }
}

/// Returns the number of the system call from the data of either tracepoint.
pub(crate) fn number(raw: &[u8]) -> Option<i64> {
    u64_at(raw, 8).map(|word| word as i64)
}

/// A call that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) number: i64,
    pub(super) result: i64,
}

impl Returned {
    /// Returns whether a signal interrupted the call. If the signal ends the process, the call never returns to it.
    pub(super) fn is_interrupted(self) -> bool {
        // ERESTARTSYS to ERESTART_RESTARTBLOCK, which only the kernel and its tracers see.
        (-516..=-512).contains(&self.result)
    }
}

/// Returns the call that ends, from the data of `sys_exit`. `None` for a new process or thread: it returns from the call
/// of its parent, which was made once.
pub(super) fn returned(raw: &[u8]) -> Option<Returned> {
    let result = u64_at(raw, 16)? as i64;
    let number = match number(raw)? {
        // Returning from a signal handler restores the registers, and the kernel forgets the number. A number that does
        // not exist fails with ENOSYS.
        number if number < 0 && result != i64::from(-libc::ENOSYS) => libc::SYS_rt_sigreturn,
        number => number,
    };
    (!(result == 0 && starts_a_thread(number))).then_some(Returned { number, result })
}

fn starts_a_thread(number: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if matches!(number, libc::SYS_fork | libc::SYS_vfork) {
        return true;
    }
    matches!(number, libc::SYS_clone | libc::SYS_clone3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_thread_and_by_number() {
        let mut table = SyscallTable::default();
        let key = |thread, number| CallKey { thread, number, arguments: None };
        [1, 3, 900, 1_000, 1_000_000].into_iter().for_each(|nanos| table.add(key(1, 7), 0, Some(nanos)));
        table.add(key(2, 7), -2, None);
        table.add(key(2, 8), -4096, Some(5));
        let stats = &table.by_number[&7];
        assert_eq!((stats.calls, stats.errors, stats.nanos), (6, 1, 1_001_904));
        assert_eq!(stats.errors_by_number, [(2, 1)]);
        assert_eq!(stats.latencies.count(), 5);
        assert!(stats.quantile_nanos(0.5).abs_diff(900) <= 9, "{}", stats.quantile_nanos(0.5));
        assert!(stats.quantile_nanos(1.0).abs_diff(1_000_000) <= 10_000);
        assert_eq!(table.by_thread[&key(1, 7)], CallTotals { calls: 5, errors: 0, nanos: 1_001_904 });
        assert_eq!(table.by_thread[&key(2, 7)], CallTotals { calls: 1, errors: 1, nanos: 0 });
        assert_eq!(table.by_thread[&key(2, 8)].errors, 0);
    }

    #[test]
    fn a_new_thread_returns_from_nothing_and_a_handler_from_its_signal() {
        let raw = |number: i64, result: i64| [[0; 8], number.to_le_bytes(), result.to_le_bytes()].concat();
        let seen = |number, result| returned(&raw(number, result)).map(|it| (it.number, it.result));
        assert_eq!(seen(libc::SYS_clone, 77), Some((libc::SYS_clone, 77)));
        assert_eq!(seen(libc::SYS_clone, -11), Some((libc::SYS_clone, -11)));
        assert_eq!((seen(libc::SYS_clone, 0), seen(libc::SYS_clone3, 0)), (None, None));
        assert_eq!(seen(libc::SYS_read, 0), Some((libc::SYS_read, 0)));
        assert_eq!(seen(-1, -4), Some((libc::SYS_rt_sigreturn, -4)));
        assert_eq!(seen(-1, -38), Some((-1, -38)));
        assert_eq!(returned(&raw(1, 1)[..20]), None);
        let is_interrupted = |result| returned(&raw(0, result)).is_some_and(Returned::is_interrupted);
        assert_eq!([-512, -516, -4, 0].map(is_interrupted), [true, true, false, false]);
    }
}
