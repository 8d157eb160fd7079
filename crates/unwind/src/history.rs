//! What was loaded where in the life of a process, including libraries that are gone, and several at one place, one
//! after the other.

use crate::module::{Module, Modules};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many eras are remembered, and how many modules in each that are gone.
const MAX_ERAS: usize = 16;
const MAX_GONE: usize = 2048;

/// A time in which no two modules were at one place: an address means one thing in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Era(pub(crate) u32);

impl Era {
    /// Returns a number that no other era of the same history, or from the same [`Eras`](crate::Eras), has.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The modules of a process in all eras. A new era begins only when something is loaded where something else was
/// before, and an old one comes back when that is loaded again: so there are few eras, and samples that belong
/// together stay together.
#[derive(Clone, Debug, Default)]
pub struct History {
    eras: VecDeque<Arc<Modules>>,
    /// The number of the first remembered era: earlier ones are forgotten.
    first: u32,
    current: Era,
}

impl History {
    /// Makes a history in which nothing was ever loaded.
    pub const fn new() -> Self {
        Self { eras: VecDeque::new(), first: 0, current: Era(0) }
    }

    /// Returns the era of samples that are taken now.
    pub fn era(&self) -> Era {
        self.current
    }

    /// Learns what is loaded now. Returns the modules that are new in the era, which may differ from the previous
    /// one.
    pub fn learn(&mut self, now: &Modules) -> Vec<Module> {
        let place = self.place_for(now);
        self.current = Era(self.first + place as u32);
        let era = Arc::make_mut(&mut self.eras[place]);
        let new = now.iter().filter(|module| era.find(module.start).is_none());
        // Tables are for walking stacks, which is done by now.
        let new: Vec<Module> = new.map(|module| Module { table: None, ..module.clone() }).collect();
        new.iter().for_each(|module| era.insert(module.clone()));
        new
    }

    /// Returns the era that `now` belongs to: the current one, if possible.
    fn place_for(&mut self, now: &Modules) -> usize {
        let fits = |era: &Arc<Modules>| {
            let new = now.iter().filter(|module| era.find(module.start).is_none()).count();
            era.len() + new <= MAX_GONE + now.len() && !now.iter().any(|module| overlaps_another(era, module))
        };
        let current = self.place(self.current).filter(|&place| fits(&self.eras[place]));
        current.or_else(|| self.eras.iter().rposition(fits)).unwrap_or_else(|| self.begin())
    }

    /// Begins a new era, the last one.
    fn begin(&mut self) -> usize {
        if self.eras.len() == MAX_ERAS {
            self.eras.pop_front();
            self.first += 1;
        }
        self.eras.push_back(Arc::default());
        self.eras.len() - 1
    }

    fn place(&self, era: Era) -> Option<usize> {
        let place = era.0.checked_sub(self.first)? as usize;
        (place < self.eras.len()).then_some(place)
    }

    /// Returns all modules of the current era.
    pub fn now(&self) -> impl Iterator<Item = &Module> {
        self.place(self.current).into_iter().flat_map(|place| self.eras[place].iter())
    }

    /// Returns the module that `address` was in, in `era`; otherwise the last one that it ever was in.
    pub fn find(&self, address: u64, era: Era) -> Option<&Module> {
        let then = self.place(era).and_then(|place| self.eras[place].find(address));
        then.or_else(|| self.eras.iter().rev().find_map(|era| era.find(address)))
    }
}

/// Returns whether `era` has something else where `module` is.
fn overlaps_another(era: &Modules, module: &Module) -> bool {
    era.overlapping(module.start, module.end).any(|other| !is_same(other, module))
}

/// A file that was rebuilt is another module, even at the same place and under the same name.
fn is_same(a: &Module, b: &Module) -> bool {
    (a.start, a.end, &a.name, &a.build_id) == (b.start, b.end, &b.name, &b.build_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(start: u64, name: &str, build: u8) -> Module {
        let (name, build_id) = (name.into(), [build].into());
        Module { start, end: start + 0x2000, file_offset: 0, bias: start, name, build_id, table: None }
    }

    fn list(modules: &[Module]) -> Modules {
        let mut list = Modules::new();
        modules.iter().for_each(|module| list.insert(module.clone()));
        list
    }

    fn name(history: &History, address: u64, era: Era) -> Option<(&str, u8)> {
        history.find(address, era).map(|module| (&*module.name, module.build_id[0]))
    }

    #[test]
    fn libraries_that_come_and_go_elsewhere_are_of_one_era() {
        let mut history = History::default();
        let program = module(0x1000, "program", 0);
        for number in 0..100u64 {
            history.learn(&list(&[program.clone(), module(0x10_0000 + number * 0x2000, "library", 1)]));
        }
        assert_eq!((history.eras.len(), history.now().count()), (1, 101));
        let another = list(&[program.clone(), module(0x1000_0000, "another", 1)]);
        assert_eq!(
            history.learn(&another).iter().map(|module| &*module.name).collect::<Vec<_>>(),
            ["another"]
        );
        assert!(history.learn(&another).is_empty(), "nothing is new");
        assert_eq!(name(&history, 0x10_0010, history.era()), Some(("library", 1)));
        assert_eq!(name(&history, 0xf000, history.era()), None);
    }

    #[test]
    fn an_address_means_what_it_meant_then() {
        let mut history = History::default();
        let program = module(0x1000, "program", 0);
        let at_one_place = [
            ("a", module(0x8000, "a", 1)),
            ("b", module(0x8000, "b", 1)),
            ("built anew", module(0x8000, "b", 2)),
            ("half over it", module(0x9000, "c", 1)),
        ];
        let eras = at_one_place.clone().map(|(_, module)| {
            history.learn(&list(&[program.clone(), module]));
            history.era()
        });
        let names = eras.map(|era| name(&history, 0x9010, era));
        assert_eq!(names, [("a", 1), ("b", 1), ("b", 2), ("c", 1)].map(Some));
        history.learn(&list(&[program.clone(), at_one_place[1].1.clone()]));
        assert_eq!((history.era(), history.eras.len()), (eras[1], 4), "it is as it was");
        assert_eq!(name(&history, 0x8010, eras[3]), Some(("b", 2)), "it was not known then, but later");
        assert_eq!(name(&history, 0x1010, eras[0]), Some(("program", 0)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut history = History::default();
        let mut eras = Vec::new();
        for build in 0..200 {
            history.learn(&list(&[module(0x8000, "a", build)]));
            eras.push(history.era());
        }
        assert_eq!(history.eras.len(), MAX_ERAS);
        assert_eq!(name(&history, 0x8000, eras[199]), Some(("a", 199)));
        assert_eq!(name(&history, 0x8000, eras[190]), Some(("a", 190)));
        assert_eq!(name(&history, 0x8000, eras[0]), Some(("a", 199)), "forgotten");
        for place in 0..3000 {
            history.learn(&list(&[module(0x10_0000 + place * 0x2000, "moves", 1)]));
        }
        assert!(history.eras.iter().all(|era| era.len() <= MAX_GONE + 1));
        assert_eq!(name(&history, 0x10_0000 + 2999 * 0x2000, history.era()), Some(("moves", 1)));
    }
}
