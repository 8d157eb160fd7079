//! The two sides of a contention, and the check of what the profiles say about them.

use crate::contention::{Found, ROUNDS, Truth, alone, find, find_kind, profiler};

/// Checks the waits of one primitive, whose functions are in the module `name`: `waits` and `releases`.
#[track_caller]
pub(crate) fn check(name: &str, kind: &str, is_lock: bool, run: impl FnOnce() -> Truth) {
    let _alone = alone();
    let profiler = profiler();
    let waits = || find(&profiler.block().expect("installed"), &format!("{name}::waits"));
    let releases = || find(&profiler.mutex().expect("installed"), &format!("{name}::releases"));
    let before = (waits(), releases());
    let truth = run();
    let block = waits().minus(&before.0);
    assert_waits(name, &block, &truth);
    assert_eq!(block.kinds, [kind], "{name}");
    let mutex = releases().minus(&before.1);
    if is_lock {
        assert_eq!((mutex.count, mutex.delay), (block.count, block.delay), "{name}: the other side");
    } else {
        assert_eq!(mutex.count, 0, "{name}: nobody holds it");
    }
}

/// The same for a primitive that is made of a lock and a condition variable: who is woken may have to wait for the lock too,
/// for a moment, which is a wait of another kind.
#[track_caller]
pub(crate) fn check_made_of_lock(name: &str, kind: &str, run: impl FnOnce() -> Truth) {
    let _alone = alone();
    let profiler = profiler();
    let waits = |kind| find_kind(&profiler.block().expect("installed"), &format!("{name}::waits"), kind);
    let truth = run();
    assert_waits(name, &waits(Some(kind)), &truth);
    let all = waits(None);
    assert!(all.delay <= truth.waited, "{name}: {all:?}, {truth:?}");
    assert!(all.kinds.iter().all(|other| [kind, "mutex"].contains(&&**other)), "{name}: {all:?}");
}

#[track_caller]
fn assert_waits(name: &str, block: &Found, truth: &Truth) {
    assert_eq!(block.count, i64::from(ROUNDS), "{name}: {block:?}, {truth:?}");
    assert!(block.delay >= truth.at_least && block.delay <= truth.waited, "{name}: {block:?}, {truth:?}");
}

/// Defines a module with the two sides of a contention.
macro_rules! sides {
    ($module:ident, |$shared:ident: &$type:ty, $meanwhile:ident| $hold:block, $wait:expr) => {
        mod $module {
            #[allow(unused_imports, reason = "some name their types in full")]
            use super::*;

            #[inline(never)]
            pub(super) fn releases($shared: &$type, $meanwhile: &dyn Fn()) {
                $hold
                std::hint::black_box(());
            }

            #[inline(never)]
            pub(super) fn waits(shared: &$type) {
                let wait: fn(&$type) = $wait;
                wait(shared);
                std::hint::black_box(());
            }
        }
    };
}

/// Contends for a value with the two sides that [`sides`] has defined.
macro_rules! contention {
    ($module:ident, $value:expr) => {
        crate::contention::contend(
            |meanwhile| $module::releases($value, meanwhile),
            || $module::waits($value),
        )
    };
}

pub(crate) use {contention, sides};
