//! What a viewer inside of a service keeps: bounded, and given back when nobody looks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::desk::{Desk, lock};
use crate::error::Error;

/// After so long without a question, what can be worked out again is let go of; after the longer time, the profiles too.
const FORGET: Duration = Duration::from_secs(60);
const CLEAR: Duration = Duration::from_secs(30 * 60);

/// What is known of a viewer's memory without waiting for anybody.
#[derive(Debug)]
pub(crate) struct Usage {
    last_asked: Mutex<Instant>,
    bytes: AtomicUsize,
}

impl Default for Usage {
    fn default() -> Self {
        Self { last_asked: Mutex::new(Instant::now()), bytes: AtomicUsize::new(0) }
    }
}

/// What the viewer of [`router_within`](crate::router_within) keeps.
#[derive(Clone)]
pub struct Memory {
    desk: Weak<Desk>,
}

impl Memory {
    pub(crate) fn new(desk: &Arc<Desk>) -> Self {
        Self { desk: Arc::downgrade(desk) }
    }

    /// About how many bytes the profiles take, and what was worked out about them, as of the last answer. Does not wait.
    pub fn bytes(&self) -> usize {
        self.desk.upgrade().map_or(0, |desk| desk.usage.bytes.load(Ordering::Relaxed))
    }

    /// Gives back what nobody has asked about for a while: a minute for what can be worked out again, half an hour for the
    /// profiles. Whether anything is left, so that this is to be called again.
    pub fn rest(&self, now: Instant) -> bool {
        let Some(desk) = self.desk.upgrade() else { return false };
        let idle = now.saturating_duration_since(*lock(&desk.usage.last_asked));
        if idle >= FORGET {
            desk.forget();
        }
        if idle >= CLEAR {
            desk.source.keep_taken(0);
        }
        desk.count() > 0
    }
}

/// Answers a question. Where memory is bounded, one at a time: what several work out at once would be beyond any bound.
pub(crate) fn within_budget<T>(desk: &Desk, question: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = desk.source.memory.map(|_| lock(&TURN));
    let answer = question();
    desk.settle();
    answer
}

impl Desk {
    /// Notes that somebody asked, and lets go of what is beyond the budget.
    pub(crate) fn settle(&self) {
        *lock(&self.usage.last_asked) = Instant::now();
        if let Some(most) = self.source.memory {
            self.shrink_to(most);
            self.count();
        }
    }

    fn count(&self) -> usize {
        let bytes = self.memory();
        self.usage.bytes.store(bytes, Ordering::Relaxed);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers;
    use crate::asker::Asker;
    use crate::query::Query;
    use crate::source::{Source, Take, Taken};
    use flamelet_report::flame::profile::{Profile, ProfileBuilder};

    /// A live service whose profiles have so many stacks.
    struct Service {
        stacks: usize,
    }

    impl Take for Service {
        fn take(&self, _: u32, _: &Asker) -> Result<Taken, Error> {
            Ok(Taken { name: "cpu".into(), profile: profile(self.stacks) })
        }
    }

    /// As many stacks, each with functions of its own.
    fn profile(stacks: usize) -> Profile {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        for stack in 0..stacks {
            let mut frame = |depth: usize| {
                let function =
                    builder.named_function(&format!("service::part_{stack}::at_{depth}"), "part.rs");
                builder.frame(function, 1)
            };
            let frames: Vec<_> = (0..8).map(&mut frame).collect();
            let stack = builder.stack(&frames);
            builder.sample(stack, Default::default(), &[1, 10]);
        }
        builder.finish()
    }

    fn desk(stacks: usize, budget: usize) -> Arc<Desk> {
        Arc::new(Desk::new(Source::live(Vec::new(), Service { stacks }).within(budget)))
    }

    fn take(desk: &Desk) -> Result<String, Error> {
        let taken = answers::take(desk, &Query::parse("seconds=1")?, &Asker::default());
        desk.settle();
        taken
    }

    /// Asks all that a page may ask about a profile.
    fn look_at(desk: &Desk, id: usize) {
        let ask = |question: fn(&Desk, &Query) -> answers::Answer, query: &str| {
            let query = Query::parse(&format!("p={id}&{query}")).expect("a query");
            within_budget(desk, || question(desk, &query)).expect("an answer");
        };
        for part in 0..4 {
            for query in [format!("f=focus:part_{part}"), format!("f=hide:at_{part}"), "dir=callers".into()] {
                ask(answers::flame, &query);
                ask(answers::functions, &query);
                assert!(
                    desk.memory() <= desk.source.memory.expect("bounded"),
                    "{id} {query}: {}",
                    desk.memory()
                );
            }
            ask(answers::flame, &format!("fn=service::part_{part}::at_3&w=200000"));
            ask(answers::graph, "type=cpu");
        }
        assert!(desk.memory() <= desk.source.memory.expect("bounded"), "{id}: {}", desk.memory());
    }

    #[test]
    fn all_that_is_kept_stays_within_the_budget() {
        let size = profile(100).byte_size();
        let desk = desk(100, 8 * size);
        for id in 0..8 {
            take(&desk).expect("taken");
            look_at(&desk, id);
        }
        assert!(desk.memory() >= size, "the newest stays");
        assert!(desk.source.let_go() > 0 && desk.source.shelved().len() < 8);
        // What is gone is said to be.
        let gone = answers::flame(&desk, &Query::parse("p=0").expect("a query")).expect_err("let go of");
        assert!(gone.to_string().contains("no such profile any more"), "{gone}");
    }

    #[test]
    fn a_profile_that_is_too_large_is_refused_in_one_line() {
        let desk = desk(100, profile(100).byte_size() * 3);
        let refused = take(&desk).expect_err("too large").to_string();
        assert!(refused.contains("KiB of one") && !refused.contains('\n'), "{refused}");
        assert_eq!(desk.memory(), 0);
    }

    #[test]
    fn two_profiles_that_are_too_large_together_are_refused() {
        let size = profile(100).byte_size();
        // The difference has the samples of both.
        let desk = desk(100, 4 * size);
        for _ in 0..2 {
            take(&desk).expect("taken");
        }
        let both = Query::parse("p=1&base=0").expect("a query");
        let refused = within_budget(&desk, || answers::flame(&desk, &both).map(|_| ()));
        let refused = refused.expect_err("too large").to_string();
        assert!(refused.contains("KiB of one"), "{refused}");
        assert!(desk.memory() <= 4 * size);
    }

    #[test]
    fn when_nobody_looks_memory_is_given_back() {
        let desk = desk(100, 64 << 20);
        let memory = Memory::new(&desk);
        assert!(!memory.rest(Instant::now() + CLEAR), "nothing was kept");
        take(&desk).expect("taken");
        look_at(&desk, 0);
        let (profile, all) = (desk.source.shelved()[0].byte_size(), memory.bytes());
        assert!(all > profile && memory.rest(Instant::now()), "{all}");
        assert_eq!(memory.bytes(), all, "somebody has just looked");
        assert!(memory.rest(Instant::now() + FORGET));
        assert_eq!(memory.bytes(), profile, "what can be worked out again is gone");
        look_at(&desk, 0);
        assert!(!memory.rest(Instant::now() + CLEAR), "nothing is left");
        assert_eq!((memory.bytes(), desk.memory()), (0, 0));
        // The next one is another one.
        let taken = take(&desk).expect("taken");
        assert!(taken.contains("\"id\":\"1\""), "{taken}");
    }
}
