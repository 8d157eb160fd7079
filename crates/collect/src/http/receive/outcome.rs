//! The answer to a request with several profiles.

use crate::collector::Refused;

/// What became of the profiles of a request whose answer cannot say which of them were refused.
#[derive(Default)]
pub(super) struct Outcome {
    kept: usize,
    refused: Vec<Refused>,
}

impl Outcome {
    /// Adds what became of a profile. Fails if it may be accepted later: then the request is sent again.
    pub(super) fn add(&mut self, outcome: Result<(), Refused>) -> Result<(), Refused> {
        match outcome {
            Ok(()) => self.kept += 1,
            Err(later @ Refused { status: 429 | 503, .. }) => return Err(later),
            Err(never) => self.refused.push(never),
        }
        Ok(())
    }

    /// Fails with the first refusal, if there is one.
    pub(super) fn finish(self) -> Result<(), Refused> {
        let all = self.kept + self.refused.len();
        let count = self.refused.len();
        match self.refused.into_iter().next() {
            None => Ok(()),
            Some(first) if all == 1 => Err(first),
            Some(Refused { status, message }) => {
                Err(Refused::new(status, format!("{count} of {all} profiles were refused: {message}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcomes: &[Result<(), u16>]) -> (usize, Result<(), Refused>) {
        let mut outcome = Outcome::default();
        for (at, one) in outcomes.iter().enumerate() {
            if let Err(later) =
                outcome.add(one.map_err(|status| Refused::new(status, format!("number {at}"))))
            {
                return (at, Err(later));
            }
        }
        (outcomes.len(), outcome.finish())
    }

    #[test]
    fn a_profile_that_is_refused_does_not_stop_those_after_it() {
        assert_eq!(answer(&[Ok(()), Ok(())]), (2, Ok(())));
        assert_eq!(answer(&[Err(400)]), (1, Err(Refused::new(400, "number 0"))));
        let some = Refused::new(413, "2 of 4 profiles were refused: number 1");
        assert_eq!(answer(&[Ok(()), Err(413), Ok(()), Err(400)]), (4, Err(some)));
        assert_eq!(
            answer(&[Err(400), Err(429), Ok(())]),
            (1, Err(Refused::new(429, "number 1"))),
            "all are sent again"
        );
    }
}
