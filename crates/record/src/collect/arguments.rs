//! The texts of the arguments of system calls, each stored once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// An index into [`Arguments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ArgumentsId(u32);

/// At most this many texts are kept, so that a program that never passes the same arguments twice does not fill the
/// memory.
const MOST: usize = 20_000;
/// The text of all calls beyond that.
const OTHERS: &str = "(others)";

/// The texts.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    texts: Vec<Arc<str>>,
    index: FxHashMap<Arc<str>, ArgumentsId>,
}

impl Arguments {
    pub(crate) fn intern(&mut self, text: &str) -> ArgumentsId {
        if let Some(&known) = self.index.get(text) {
            return known;
        }
        if self.texts.len() >= MOST && text != OTHERS {
            return self.intern(OTHERS);
        }
        let id = ArgumentsId(self.texts.len() as u32);
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.index.insert(text, id);
        id
    }

    pub(crate) fn text(&self, id: ArgumentsId) -> &str {
        &self.texts[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_once_and_not_without_end() {
        let mut arguments = Arguments::default();
        let first = arguments.intern("3");
        assert_eq!(arguments.intern("3"), first);
        for at in 0..MOST + 10 {
            arguments.intern(&format!("{at}, 8"));
        }
        assert_eq!(arguments.texts.len(), MOST + 1);
        let other = arguments.intern("something new");
        assert_eq!((arguments.text(first), arguments.text(other)), ("3", OTHERS));
    }
}
