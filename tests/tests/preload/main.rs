//! `flamelet record` with preloaded libraries: programs that were not built for it and whose allocations are known,
//! and CPU time where `perf_event_open` is forbidden.

mod attack;
mod errors;
mod inside;
mod known_answers;
mod processes;
mod recording;
mod sampled;
mod side_by_side;
mod signals;
