//! Stacks fifty frames deep, of which there are as many as wanted.

use std::hint::black_box;

/// The frames above the work: with those of the thread and of the work itself they make fifty.
const DEPTH: u32 = 41;

/// Calls `work` under the stack number `number`: its bits choose between two functions at each level.
pub(crate) fn under(number: usize, work: &mut dyn FnMut()) {
    left(number, DEPTH, work);
}

macro_rules! level {
    ($name:ident) => {
        #[inline(never)]
        fn $name(number: usize, depth: u32, work: &mut dyn FnMut()) {
            match (depth, number & 1) {
                (0, _) => work(),
                (_, 0) => left(black_box(number >> 1), depth - 1, work),
                _ => right(black_box(number >> 1), depth - 1, work),
            }
            black_box(depth);
        }
    };
}
level!(left);
level!(right);
