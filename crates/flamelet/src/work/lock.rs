//! Locks that a panic does not poison, and that the child of a fork does not find locked.

use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(any(feature = "http", feature = "tracing"))]
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(target_os = "linux")]
pub(crate) use flamelet_capture::fork::PerProcess;
use flamelet_capture::own_threads::unseen;

/// Locks `mutex`. The data it guards is consistent after every statement, so a panic of another thread is no reason
/// to fail. Waiting for it is flamelet's own, and not in the service's lock profiles.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unseen(|| mutex.lock()).unwrap_or_else(PoisonError::into_inner)
}

/// A value behind a mutex, one for each process. At a fork, a thread that the child does not have may hold the
/// parent's mutex, and have left the value half changed.
pub(crate) struct ProcessMutex<T> {
    made: PerProcess<Mutex<T>>,
}

impl<T: Send> ProcessMutex<T> {
    pub(crate) const fn new() -> Self {
        Self { made: PerProcess::new() }
    }

    /// Locks this process' value, which `make` makes at its first use.
    pub(crate) fn lock(&self, make: impl FnOnce() -> T) -> MutexGuard<'_, T> {
        lock(self.made.get(|_| Mutex::new(make())))
    }
}

impl<T: Send> Default for ProcessMutex<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks `value` for reading, as [`lock`] does.
#[cfg(any(feature = "http", feature = "tracing"))]
pub(crate) fn read<T>(value: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    unseen(|| value.read()).unwrap_or_else(PoisonError::into_inner)
}

/// Locks `value` for writing, as [`lock`] does.
#[cfg(any(feature = "http", feature = "tracing"))]
pub(crate) fn write<T>(value: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    unseen(|| value.write()).unwrap_or_else(PoisonError::into_inner)
}

/// A value behind a lock for many readers, one for each process, for what is read all the time.
#[cfg(feature = "tracing")]
pub(crate) struct ProcessRwLock<T> {
    made: PerProcess<RwLock<T>>,
}

#[cfg(feature = "tracing")]
impl<T: Default + Send + Sync> ProcessRwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        read(self.of_process())
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        write(self.of_process())
    }

    fn of_process(&self) -> &RwLock<T> {
        self.made.get_quick(|_| RwLock::default())
    }
}

#[cfg(feature = "tracing")]
impl<T: Send + Sync> Default for ProcessRwLock<T> {
    fn default() -> Self {
        Self { made: PerProcess::new() }
    }
}

/// Nothing samples on other systems, and those that have no fork need no more.
#[cfg(not(target_os = "linux"))]
pub(crate) struct PerProcess<T>(std::sync::OnceLock<T>);

#[cfg(not(target_os = "linux"))]
impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    fn get(&self, make: impl FnOnce(bool) -> T) -> &T {
        self.0.get_or_init(|| make(false))
    }

    #[cfg(any(feature = "http", feature = "tracing"))]
    pub(crate) fn get_quick(&self, make: impl FnOnce(bool) -> T) -> &T {
        self.get(make)
    }
}
