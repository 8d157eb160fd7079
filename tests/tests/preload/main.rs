//! `flamelet record` by preloaded libraries: programs that were not built for it, whose allocations are known; and CPU
//! time where the kernel's own way is forbidden.

mod attack;
mod errors;
mod inside;
mod known_answers;
mod processes;
mod recording;
mod sampled;
mod side_by_side;
mod signals;
