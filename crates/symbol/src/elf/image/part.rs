//! A part of a file in memory. Large parts are mapped, so that their memory goes back to the system with them: what a
//! C library's allocator gets back, it keeps, and more of it once it has seen a large block.

/// From this size on, a part is mapped.
#[cfg(unix)]
const LARGE: usize = 64 << 10;

pub(super) enum ImagePart {
    Small(Box<[u8]>),
    #[cfg(unix)]
    Large(pages::Pages),
}

impl ImagePart {
    /// Returns a part of `length` bytes that `fill` fills.
    pub(super) fn filled(length: usize, fill: impl FnOnce(&mut [u8]) -> Option<()>) -> Option<Self> {
        #[cfg(unix)]
        if length >= LARGE {
            let mut pages = pages::Pages::new(length)?;
            fill(&mut pages)?;
            return Some(Self::Large(pages));
        }
        let mut bytes = vec![0; length];
        fill(&mut bytes)?;
        Some(Self::Small(bytes.into()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            #[cfg(unix)]
            Self::Large(pages) => pages,
        }
    }
}

#[cfg(unix)]
mod pages {
    use std::ops::{Deref, DerefMut};
    use std::ptr::NonNull;

    /// Private memory of the system, which gets it back when this is dropped.
    pub(in crate::elf::image) struct Pages {
        start: NonNull<u8>,
        length: usize,
    }

    impl Pages {
        /// Returns `length` zeros, which must not be none; `None` if there is no memory.
        pub(super) fn new(length: usize) -> Option<Self> {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
            let start = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)?;
            Some(Self { start, length })
        }
    }

    impl Deref for Pages {
        type Target = [u8];

        fn deref(&self) -> &[u8] {
            // SAFETY: the mapping is this long, initialized with zeros, and lives as long as `self`.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }
    }

    impl DerefMut for Pages {
        fn deref_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above; nothing else uses the mapping.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the mapping was made by `new`, and no reference into it outlives `self`.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_parts_hold_what_was_read() {
        for length in [1, LARGE - 1, LARGE, 3 * LARGE + 5] {
            let part = ImagePart::filled(length, |into| {
                into.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
                Some(())
            });
            let part = part.expect("memory");
            assert_eq!(part.bytes().len(), length);
            assert!(part.bytes().iter().enumerate().all(|(at, &byte)| byte == at as u8), "{length}");
        }
        assert!(ImagePart::filled(LARGE, |_| None).is_none());
    }
}
