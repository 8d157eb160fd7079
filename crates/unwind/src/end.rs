//! How a walk over a stack ends.

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// At the first frame of the thread.
    Rooted,
    /// Before it; the frames so far are right.
    Truncated(Reason),
}

/// Why a walk ended before the first frame of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// There was no room for more frames.
    Full,
    /// The last address is in no known module: generated code, or a library loaded just now.
    NoModule,
    /// The code of the last frame has no unwind information that a table holds.
    NoRule,
    /// The next frame is where memory could not be read: beyond the dump, or on another stack.
    OutOfStack,
    /// The next frame would lie below this one: the stack is corrupt or the rule wrong.
    NoProgress,
}

impl End {
    /// Returns whether the stack reached the first frame of its thread.
    pub fn is_rooted(self) -> bool {
        self == Self::Rooted
    }
}
