//! The sampler on systems that have none.

use super::options::Options;
use super::sample_reader::SampleReader;
use super::status::Status;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn attach(_options: &Options, _window: Option<(Duration, usize)>) -> Result<Arc<SampleReader>> {
    Err(Error::new(ErrorKind::Unsupported, "CPU sampling is only supported on Linux"))
}

pub(super) fn detach(_reader: &Arc<SampleReader>) {}

pub(super) fn flush() {}

pub(super) fn status() -> Status {
    Status::default()
}
