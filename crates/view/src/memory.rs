//! The memory of a viewer inside a service: bounded, and freed when the viewer is not used.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::Error;
use crate::cache::Cache;
use crate::lock::lock;

/// After this long without a request, what can be computed again is dropped; after the longer time, the profiles too.
const FORGET: Duration = Duration::from_secs(60);
const CLEAR: Duration = Duration::from_secs(30 * 60);

/// The memory that the viewer of [`router_within`](crate::router_within) keeps.
#[derive(Clone)]
pub struct Memory {
    cache: Weak<Cache>,
}

impl Memory {
    pub(crate) fn new(cache: &Arc<Cache>) -> Self {
        Self { cache: Arc::downgrade(cache) }
    }

    /// Returns about how many bytes the profiles and what was computed from them took at the last answer. Does not
    /// wait.
    pub fn bytes(&self) -> usize {
        self.cache.upgrade().map_or(0, |cache| cache.usage.bytes.load(Ordering::Relaxed))
    }

    /// Frees what has not been requested for a while: after a minute what can be computed again, after half an hour
    /// the profiles. Returns whether anything is left, in which case it should be called again.
    pub fn rest(&self, now: Instant) -> bool {
        let Some(cache) = self.cache.upgrade() else { return false };
        let idle = now.saturating_duration_since(*lock(&cache.usage.last_asked));
        if idle >= FORGET {
            cache.forget();
        }
        if idle >= CLEAR {
            cache.source.keep_taken(0);
        }
        cache.count() > 0
    }
}

/// Answers a request. If memory is bounded, one at a time: several that compute at once could exceed any bound.
pub(crate) fn within_budget<T>(
    cache: &Cache,
    question: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = cache.source.memory.map(|_| lock(&TURN));
    let answer = question();
    cache.settle();
    answer
}

impl Cache {
    /// Records the time of this request, and drops what exceeds the budget.
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
    use crate::cancel::CancelToken;
    use crate::query::ViewQuery;
    use crate::source::{Source, Take};
    use crate::taken::Taken;
    use flamelet_report::profile::{Profile, ProfileBuilder};

    /// A live service whose profiles have this many stacks.
    struct Service {
        stacks: usize,
    }

    impl Take for Service {
        fn take(&self, _: u32, _: &CancelToken) -> Result<Taken, Error> {
            Ok(Taken { name: "cpu".into(), profile: profile(self.stacks) })
        }
    }

    /// Returns a profile of this many stacks, each with its own functions.
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

    fn cache(stacks: usize, budget: usize) -> Arc<Cache> {
        Arc::new(Cache::new(Source::live(Vec::new(), Service { stacks }).within(budget)))
    }

    fn take(cache: &Cache) -> Result<String, Error> {
        let taken = answers::take(cache, &ViewQuery::parse("seconds=1")?, &CancelToken::default());
        cache.settle();
        taken
    }

    /// Sends every request that a page may send about a profile.
    fn look_at(cache: &Cache, id: usize) {
        let ask = |question: fn(&Cache, &ViewQuery) -> answers::Answer, query: &str| {
            let query = ViewQuery::parse(&format!("p={id}&{query}")).expect("a query");
            within_budget(cache, || question(cache, &query)).expect("an answer");
        };
        for part in 0..4 {
            for query in [format!("f=focus:part_{part}"), format!("f=hide:at_{part}"), "dir=callers".into()] {
                ask(answers::flame, &query);
                ask(answers::functions, &query);
                assert!(
                    cache.memory() <= cache.source.memory.expect("bounded"),
                    "{id} {query}: {}",
                    cache.memory()
                );
            }
            ask(answers::flame, &format!("fn=service::part_{part}::at_3&w=200000"));
            ask(answers::graph, "type=cpu");
        }
        assert!(cache.memory() <= cache.source.memory.expect("bounded"), "{id}: {}", cache.memory());
    }

    #[test]
    fn all_that_is_kept_stays_within_the_budget() {
        let size = profile(100).byte_size();
        let cache = cache(100, 8 * size);
        for id in 0..8 {
            take(&cache).expect("taken");
            look_at(&cache, id);
        }
        assert!(cache.memory() >= size, "the newest stays");
        assert!(cache.source.let_go() > 0 && cache.source.shelved().len() < 8);
        // Asking for a dropped profile is an error that says so.
        let gone = answers::flame(&cache, &ViewQuery::parse("p=0").expect("a query")).expect_err("let go of");
        assert!(gone.to_string().contains("no longer available"), "{gone}");
    }

    #[test]
    fn a_profile_that_is_too_large_is_refused_in_one_line() {
        let cache = cache(100, profile(100).byte_size() * 3);
        let refused = take(&cache).expect_err("too large").to_string();
        assert!(refused.contains("KiB per profile") && !refused.contains('\n'), "{refused}");
        assert_eq!(cache.memory(), 0);
    }

    #[test]
    fn two_profiles_that_are_too_large_together_are_refused() {
        let size = profile(100).byte_size();
        // The difference has the samples of both.
        let cache = cache(100, 4 * size);
        for _ in 0..2 {
            take(&cache).expect("taken");
        }
        let both = ViewQuery::parse("p=1&base=0").expect("a query");
        let refused = within_budget(&cache, || answers::flame(&cache, &both).map(|_| ()));
        let refused = refused.expect_err("too large").to_string();
        assert!(refused.contains("KiB per profile"), "{refused}");
        assert!(cache.memory() <= 4 * size);
    }

    #[test]
    fn memory_is_given_back_when_no_viewer_is_open() {
        let cache = cache(100, 64 << 20);
        let memory = Memory::new(&cache);
        assert!(!memory.rest(Instant::now() + CLEAR), "nothing was kept");
        take(&cache).expect("taken");
        look_at(&cache, 0);
        let (profile, all) = (cache.source.shelved()[0].byte_size(), memory.bytes());
        assert!(all > profile && memory.rest(Instant::now()), "{all}");
        assert_eq!(memory.bytes(), all, "it was just used");
        assert!(memory.rest(Instant::now() + FORGET));
        assert_eq!(memory.bytes(), profile, "what can be worked out again is gone");
        look_at(&cache, 0);
        assert!(!memory.rest(Instant::now() + CLEAR), "nothing is left");
        assert_eq!((memory.bytes(), cache.memory()), (0, 0));
        // The next profile gets a new id.
        let taken = take(&cache).expect("taken");
        assert!(taken.contains("\"id\":\"1\""), "{taken}");
    }
}
