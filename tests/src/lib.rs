//! The shared part of the black-box tests: the programs they start, the profiles they use, and a parser for the reports
//! that both `flamelet` and `pprof` print.
//!
//! The tests do not use flamelet's crates: they see what a user sees. [`wire`] has its own writer for profiles, so that a
//! mistake in the codec cannot hide in the test input.

pub mod compare;
pub mod confined;
pub mod dot;
pub mod mutate;
pub mod peak;
pub mod profiles;
pub mod programs;
pub mod raw;
pub mod rows;
pub mod synthetic;
pub mod wire;
