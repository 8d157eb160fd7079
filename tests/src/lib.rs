//! What the black-box tests share: the programs they start, the profiles they start them on, and a reader of
//! the reports that both `flamelet` and `pprof` print.
//!
//! The tests know nothing of flamelet's crates: they see what a user sees. [`wire`] even writes its profiles
//! by itself, so that a mistake in the codec cannot hide in the tests' own input.

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
