//! Limits on HTTP requests.

use std::time::Duration;

use crate::{Error, Result};

/// The limits of HTTP requests. A request for more is refused with a message that names the cap.
///
/// The service's own calls, such as [`Profiler::cpu`](crate::Profiler::cpu), are not capped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest capture; ten minutes unless set.
    pub max_duration: Duration,
    /// The highest frequency in hertz; 1000 unless set.
    pub max_frequency: u32,
    /// How many captures may run at the same time; 16 unless set.
    pub max_captures: usize,
    /// The widest picture in pixels.
    pub max_image_width: u32,
    /// How many bytes of finished answers may wait for clients that read slowly; 32 MiB unless set. Applies
    /// under axum and to `flamelet::serve`: a program that uses `http::Handler` alone owns its answers.
    pub max_unread: usize,
}

impl Limits {
    /// Checks the caps: one that refuses every request is a mistake.
    pub(super) fn check(&self) -> Result<()> {
        let highest = flamelet_capture::cpu::MAX_FREQUENCY;
        if self.max_duration < Duration::from_secs(1)
            || self.max_frequency == 0
            || self.max_captures == 0
            || self.max_image_width == 0
            || self.max_unread == 0
        {
            return Err(Error::invalid(
                "the limits must be at least 1 second, 1 Hz, 1 capture, 1 pixel and 1 byte",
            ));
        }
        if self.max_frequency > highest {
            return Err(Error::invalid(format!("max_frequency must be at most {highest} Hz")));
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_duration: Duration::from_secs(600),
            max_frequency: 1000,
            max_captures: 16,
            max_image_width: 20_000,
            max_unread: 32 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The caps exist with every set of features.
    #[test]
    fn caps_that_refuse_everything_are_refused() {
        Limits::default().check().expect("the defaults are good");
        let highest = flamelet_capture::cpu::MAX_FREQUENCY;
        for wrong in [
            Limits { max_duration: Duration::from_millis(999), ..Limits::default() },
            Limits { max_frequency: 0, ..Limits::default() },
            Limits { max_frequency: highest + 1, ..Limits::default() },
            Limits { max_captures: 0, ..Limits::default() },
            Limits { max_image_width: 0, ..Limits::default() },
            Limits { max_unread: 0, ..Limits::default() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
