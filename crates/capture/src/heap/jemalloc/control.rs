//! jemalloc's control function, which reads and sets values by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

/// jemalloc's `mallctl`.
pub type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    mallctl: Mallctl,
}

/// Values that can be read: any bytes of the right length are valid, except for `bool`, which jemalloc writes as 0 or
/// 1.
pub(super) trait Value: Copy {}
impl Value for bool {}
impl Value for usize {}
impl Value for u64 {}
impl<T> Value for *const T {}

impl Control {
    pub(super) const fn new(mallctl: Mallctl) -> Self {
        Self { mallctl }
    }

    /// Returns the value called `name`, or the error number.
    pub(super) fn read<T: Value>(self, name: &CStr) -> Result<T, c_int> {
        let mut value = MaybeUninit::<T>::uninit();
        let mut length = size_of::<T>();
        // SAFETY: jemalloc writes a value of this length, or refuses when its own has another length.
        let code = unsafe {
            (self.mallctl)(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut length, ptr::null_mut(), 0)
        };
        match code {
            // SAFETY: jemalloc reported that it wrote the value.
            0 if length == size_of::<T>() => Ok(unsafe { value.assume_init() }),
            0 => Err(libc::EINVAL),
            code => Err(code),
        }
    }

    /// Sets the value called `name`.
    pub(super) fn write<T: Value>(self, name: &CStr, mut value: T) -> Result<(), c_int> {
        let (value, length) = ((&raw mut value).cast(), size_of::<T>());
        // SAFETY: jemalloc reads a value of this length, or refuses when its own has another length.
        let code = unsafe { (self.mallctl)(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), value, length) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    pub(super) fn statistics(self) -> Option<Statistics> {
        self.write(c"epoch", 1u64).ok()?;
        Some(Statistics {
            allocated: self.read(c"stats.allocated").ok()?,
            active: self.read(c"stats.active").ok()?,
            resident: self.read(c"stats.resident").ok()?,
            retained: self.read(c"stats.retained").ok()?,
        })
    }
}

/// What jemalloc says about its memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Handed out to the program.
    pub allocated: usize,
    /// In pages that hold any of it.
    pub active: usize,
    /// In physical memory.
    pub resident: usize,
    /// Kept as address space only.
    pub retained: usize,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocated, active, resident, retained } = self;
        write!(
            f,
            "jemalloc: allocated {allocated}, active {active}, resident {resident}, retained {retained} bytes"
        )
    }
}
