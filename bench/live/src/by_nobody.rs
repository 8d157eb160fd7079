//! Nobody profiles the service.

pub(crate) fn start(_folder: Option<&str>, _url: Option<&str>) {}

pub(crate) fn stop((): ()) {}
