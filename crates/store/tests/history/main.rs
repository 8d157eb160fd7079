//! The history from outside: what is written is read, whatever happens meanwhile.

mod damage;
mod disk;
mod follow;
mod kill;
mod names;
mod ranges;
mod sums;
mod support;
