//! What the command lines of several verbs share: groups of arguments, value parsers, help, and error messages.

pub(crate) mod compare;
pub(crate) mod given;
pub(crate) mod guide;
pub(crate) mod options;
pub(crate) mod report;
pub(crate) mod service;
pub(crate) mod source;
pub(crate) mod usage;
pub(crate) mod values;
