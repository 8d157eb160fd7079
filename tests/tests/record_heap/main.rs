//! `flamelet record --heap`: programs that were not built for it, whose allocations are known.

mod errors;
mod known_answers;
mod processes;
mod recording;
mod sampled;
mod side_by_side;
