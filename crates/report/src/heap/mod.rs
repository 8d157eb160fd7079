//! `heap`: what holds memory, what allocates and frees it, how long it lives, and what grows.
//!
//! | question | answer | from profile |
//! |---|---|---|
//! | what holds it, what allocated it, what held it at the peak | [`holders`] | `heap`, `allocs`, `peak` |
//! | what frees memory that others allocated | [`freed`] | `freed` |
//! | how long does it live, and what is only temporary | [`lifetimes`], [`temporary`] | `lifetime` |
//! | what grows, and does it grow steadily | [`growth`], [`growth_between`] | `growth`, or several of `heap` |
//!
//! Rows are whole stacks, because a leak has one. Each value is an estimate with its error.

#[cfg(feature = "text")]
mod freed;
#[cfg(feature = "text")]
mod growth;
#[cfg(feature = "text")]
mod holders;
mod lifetime_classes;
#[cfg(feature = "text")]
mod lifetimes;
#[cfg(feature = "text")]
mod stacks;

#[cfg(feature = "text")]
pub use freed::{Freed, FreedRow, freed};
#[cfg(feature = "text")]
pub(crate) use growth::CERTAIN;
#[cfg(feature = "text")]
pub use growth::{Growth, GrowthRow, growth, growth_between};
#[cfg(feature = "text")]
pub use holders::{Holder, Holders, holders};
pub(crate) use lifetime_classes::{LIFETIMES, TEMPORARY, lifetimes_of_sets};
#[cfg(feature = "text")]
pub use lifetimes::{LifetimeClass, LifetimeRow, Lifetimes, lifetimes, temporary};
