//! Values that the child of a fork does not share with its parent.

use super::mark::{forks, has_forks, process};
use super::register;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A value that each process makes for itself when it first asks for it, also after a fork. A parent's value is never
/// freed in a child: threads that do not exist there may have left it half changed.
#[derive(Debug)]
pub struct PerProcess<T> {
    made: AtomicPtr<MadeValue<T>>,
}

#[derive(Debug)]
struct MadeValue<T> {
    /// The process that it belongs to; [`NOBODY`] when it is certainly the parent's.
    process: AtomicU64,
    value: T,
}

/// Of no process, as none has forked so often.
const NOBODY: u64 = u64::MAX;

impl<T: Send + Sync> PerProcess<T> {
    /// Makes one without a value.
    pub const fn new() -> Self {
        Self { made: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns this process' value, making it if there is none; `make` gets whether there is a parent's instead. When
    /// several threads come first at once each may make one; all get the same.
    pub fn get(&self, make: impl FnOnce(bool) -> T) -> &T {
        let known = self.made.load(Ordering::Acquire);
        // SAFETY: null, or from a box that `replace` made and that lives as long as `self`.
        match unsafe { known.as_ref() } {
            Some(made) if made.is_own() => &made.value,
            _ => self.replace(known, make(!known.is_null())),
        }
    }

    /// Returns the same as [`PerProcess::get`] without a system call, for what is read all the time. The child of a
    /// bare `clone`, which runs no handlers of a fork, may share the parent's value.
    pub fn get_quick(&self, make: impl FnOnce(bool) -> T) -> &T {
        let known = self.made.load(Ordering::Acquire);
        // SAFETY: null, or from a box that `replace` made and that lives as long as `self`.
        match unsafe { known.as_ref() } {
            Some(made) if has_forks(made.process.load(Ordering::Relaxed), forks()) => &made.value,
            _ => self.replace(known, make(!known.is_null())),
        }
    }

    /// Returns the value that is there, whichever process it belongs to.
    pub fn known(&self) -> Option<&T> {
        // SAFETY: null, or from a box that `replace` made and that lives as long as `self`.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }.map(|made| &made.value)
    }

    /// In the child of a fork: keeps the parent's value as the child's. Async-signal-safe.
    pub fn adopt(&self) {
        self.set_process(process());
    }

    /// In the child of a fork: the parent's value is not the child's. Async-signal-safe.
    pub fn disown(&self) {
        self.set_process(NOBODY);
    }

    fn set_process(&self, process: u64) {
        // SAFETY: null, or from a box that `replace` made and that lives as long as `self`.
        if let Some(made) = unsafe { self.made.load(Ordering::Acquire).as_ref() } {
            made.process.store(process, Ordering::SeqCst);
        }
    }

    #[cold]
    fn replace(&self, known: *mut MadeValue<T>, value: T) -> &T {
        register();
        let new = Box::into_raw(Box::new(MadeValue { process: AtomicU64::new(process()), value }));
        match self.made.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and from now on it lives as long as `self`.
            Ok(_) => unsafe { &(*new).value },
            // SAFETY: no other thread knows `new`; `first` is another thread's, and lives as long as `self`.
            Err(first) => unsafe {
                drop(Box::from_raw(new));
                &(*first).value
            },
        }
    }
}

impl<T> MadeValue<T> {
    fn is_own(&self) -> bool {
        self.process.load(Ordering::Relaxed) == process()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let made = *self.made.get_mut();
        // SAFETY: null, or from a box that `replace` made; nothing uses `self` any more.
        if unsafe { made.as_ref() }.is_some_and(MadeValue::is_own) {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

impl<T: Send + Sync> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::tests::holds_in_children_with_the_same_number;
    use super::*;
    use flamelet_test_support::holds_in_child;

    #[test]
    fn a_child_makes_its_own_unless_it_adopts() {
        static NUMBER: PerProcess<i32> = PerProcess::new();
        static ADOPTED: PerProcess<i32> = PerProcess::new();
        assert_eq!((NUMBER.known(), *NUMBER.get(|has_parent| 1 + i32::from(has_parent))), (None, 1));
        assert_eq!(*NUMBER.get(|_| 7), 1, "made once");
        assert_eq!(*ADOPTED.get(|_| 5), 5);
        assert!(holds_in_child(|| {
            ADOPTED.adopt();
            let own = (NUMBER.known(), *NUMBER.get(|has_parent| 10 + i32::from(has_parent)));
            own == (Some(&1), 11) && *ADOPTED.get(|_| 9) == 5
        }));
        NUMBER.disown();
        assert_eq!(*NUMBER.get(|_| 3), 3);
    }

    #[test]
    fn a_child_makes_its_own_without_asking_for_its_number() {
        static NUMBER: PerProcess<i32> = PerProcess::new();
        assert_eq!(*NUMBER.get_quick(|has_parent| 1 + i32::from(has_parent)), 1);
        assert_eq!((*NUMBER.get_quick(|_| 7), *NUMBER.get(|_| 8)), (1, 1), "made once");
        assert!(holds_in_child(|| {
            let own = *NUMBER.get_quick(|has_parent| 10 + i32::from(has_parent));
            own == 11 && *NUMBER.get_quick(|_| 9) == 11
        }));
        assert_eq!(*NUMBER.get_quick(|_| 7), 1, "the parent keeps its own");
    }

    #[test]
    fn a_child_with_the_number_of_its_parent_does_not_share_its_value() {
        let dropped = std::sync::atomic::AtomicBool::new(false);
        struct SetOnDrop<'a>(&'a std::sync::atomic::AtomicBool);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let of_parent = PerProcess::new();
        of_parent.get(|_| SetOnDrop(&dropped));
        assert!(holds_in_children_with_the_same_number(|| {
            // SAFETY: made above.
            let is_own = unsafe { &*of_parent.made.load(Ordering::Relaxed) }.is_own();
            // SAFETY: as its owner would drop it; the child does not use it again.
            drop(unsafe { ptr::read(&raw const of_parent) });
            !is_own && !dropped.load(Ordering::Relaxed)
        }));
    }

    #[test]
    fn all_threads_get_the_same() {
        static SHARED: PerProcess<usize> = PerProcess::new();
        let number = |thread| *SHARED.get(|_| thread);
        let numbers: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || number(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(numbers.iter().all(|&number| number == numbers[0]), "{numbers:?}");
    }
}
