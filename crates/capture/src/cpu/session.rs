//! What a program starts: one capture, or a memory of the recent past.

use super::options::{Options, RecentOptions};
use super::sample_reader::SampleReader;
use super::sampler;
use super::status::Status;
use crate::Result;
use crate::own_threads::unseen;
use flamelet_profile::Profile;
use std::sync::Arc;
use std::time::Duration;

/// Starts a capture. The sampler starts with the first one; any number can run at the same time.
pub fn start(options: &Options) -> Result<Session> {
    options.check()?;
    let reader = unseen(|| sampler::attach(options, None))?;
    Ok(Session { attached: AttachedReader { reader } })
}

/// Starts keeping the recent past, so that [`Recent::last`] answers at once.
pub fn start_recent(options: &RecentOptions) -> Result<Recent> {
    options.check()?;
    let reader = unseen(|| sampler::attach(&options.sampling, Some((options.window, options.keep))))?;
    Ok(Recent { attached: AttachedReader { reader } })
}

/// Returns what the sampler of this process has done so far.
pub fn status() -> Status {
    unseen(sampler::status)
}

/// A capture that runs until it is finished or dropped.
#[derive(Debug)]
#[must_use = "a capture ends when it is dropped"]
pub struct Session {
    attached: AttachedReader,
}

impl Session {
    /// Returns what was sampled so far; the capture continues.
    pub fn snapshot(&self) -> Profile {
        unseen(|| {
            sampler::flush();
            self.attached.reader.profile_of(None)
        })
    }

    /// Ends the capture and returns its profile.
    pub fn finish(self) -> Profile {
        let reader = self.attached.reader.clone();
        drop(self);
        unseen(|| reader.profile_of(None))
    }
}

/// Keeps windows of the recent past until it is dropped.
#[derive(Debug)]
#[must_use = "the past is forgotten when this is dropped"]
pub struct Recent {
    attached: AttachedReader,
}

impl Recent {
    /// Returns the last `span`, or what is kept of it, up to now. It starts where a window does, so it may reach back
    /// further by less than one window; the profile's header says what time it covers.
    pub fn last(&self, span: Duration) -> Profile {
        unseen(|| {
            sampler::flush();
            self.attached.reader.profile_of(Some(span))
        })
    }
}

/// Leaves the sampler when dropped.
#[derive(Debug)]
struct AttachedReader {
    reader: Arc<SampleReader>,
}

impl Drop for AttachedReader {
    fn drop(&mut self) {
        unseen(|| sampler::detach(&self.reader));
    }
}
