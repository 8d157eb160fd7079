//! The files of a history: which are in its folder, what their names say, and how they are opened safely.

pub(crate) mod folder;
pub mod private;
pub(crate) mod sys;
