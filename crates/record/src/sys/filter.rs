//! A seccomp filter that stops its process for the tracer at some system calls and lets all others pass at full
//! speed.

use std::io;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRACE: u32 = 0x7ff0_0000;
/// Where `struct seccomp_data` has the number of the call.
const NUMBER: u32 = 0;

/// The filter, made before a fork, as nothing may be allocated after it.
pub(crate) struct Filter {
    program: Vec<libc::sock_filter>,
}

impl Filter {
    /// For the calls of these numbers.
    pub(crate) fn new(numbers: &[i64]) -> Self {
        let mut program = vec![libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: NUMBER }];
        for &number in numbers {
            program.push(libc::sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number as u32 });
            program.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: TRACE });
        }
        program.push(libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW });
        Self { program }
    }

    /// Puts it over this thread and all that it starts. Async-signal-safe.
    pub(crate) fn install(&self) -> io::Result<()> {
        let program =
            libc::sock_fprog { len: self.program.len() as u16, filter: self.program.as_ptr().cast_mut() };
        // SAFETY: both calls only read what they are given, which lives until they return.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
