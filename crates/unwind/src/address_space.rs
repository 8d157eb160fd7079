//! What other processes have mapped, as the kernel's records report it in the order of time.

use crate::history::Era;
use crate::module::{Module, Modules};
use std::sync::Arc;

/// The current mappings of another process. (A [`History`](crate::History) also looks back, which takes the memory of
/// all eras.)
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    modules: Arc<Modules>,
    era: Era,
    /// Whether stacks were taken in this era.
    is_used: bool,
}

/// Assigns eras: no two address spaces share one.
#[derive(Clone, Debug, Default)]
pub struct Eras {
    last: u32,
}

impl Eras {
    fn begin(&mut self) -> Era {
        self.last = self.last.wrapping_add(1);
        Era(self.last)
    }
}

impl AddressSpace {
    /// A process that starts, or runs another program, with these modules.
    pub fn new(modules: Modules, eras: &mut Eras) -> Self {
        Self { modules: Arc::new(modules), era: eras.begin(), is_used: false }
    }

    /// Returns the copy that a fork makes. It has an era of its own, since parent and child may map different code at
    /// the same free address.
    #[must_use]
    pub fn fork(&self, eras: &mut Eras) -> Self {
        Self { modules: self.modules.clone(), era: eras.begin(), is_used: false }
    }

    /// Adds a module that the process has mapped. Earlier stacks must not be confused with later ones: there may be
    /// other code at the same addresses, or code where nothing was known.
    pub fn map(&mut self, module: Module, eras: &mut Eras) {
        if std::mem::take(&mut self.is_used) {
            self.era = eras.begin();
        }
        Arc::make_mut(&mut self.modules).insert(module);
    }

    /// Returns what is mapped now.
    pub fn modules(&self) -> &Arc<Modules> {
        &self.modules
    }

    /// Returns the current era.
    pub fn era(&self) -> Era {
        self.era
    }

    /// Returns the era of a stack that is taken now.
    pub fn use_era(&mut self) -> Era {
        self.is_used = true;
        self.era
    }

    /// See [`Modules::remember_rules`].
    pub fn remember_rules(&mut self, remember: bool) {
        if self.modules.remembers_rules() != remember {
            Arc::make_mut(&mut self.modules).remember_rules(remember);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(start: u64) -> Module {
        let name = "//anon".into();
        Module { start, end: start + 0x1000, file_offset: 0, bias: 0, name, build_id: [].into(), table: None }
    }

    #[test]
    fn equal_eras_mean_equal_code() {
        let mut eras = Eras::default();
        let mut parent = AddressSpace::new(Modules::new(), &mut eras);
        // At the start of a program, before stacks are taken, the era stays.
        let first = parent.era();
        parent.map(module(0x1000), &mut eras);
        assert_eq!(parent.use_era(), first);
        // Parent and child may load different code at the same free address.
        let mut child = parent.fork(&mut eras);
        assert_ne!(child.use_era(), first);
        assert!(child.modules().find(0x1800).is_some());
        // Addresses without a name may have one now.
        parent.map(module(0x5000), &mut eras);
        let second = parent.use_era();
        assert_ne!(second, first);
        assert_ne!(child.use_era(), second);
        assert!(child.modules().find(0x5800).is_none());
    }
}
