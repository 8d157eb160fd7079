//! What the command lines of several verbs have in common: groups of arguments, how values are read, what help says, and how
//! mistakes are explained.

pub(crate) mod compare;
pub(crate) mod guide;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod usage;
pub(crate) mod values;
