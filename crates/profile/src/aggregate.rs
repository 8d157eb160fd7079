//! Reduces the detail of a profile: which frames count as the same.

use std::str::FromStr;

use crate::{Error, ErrorKind, Profile, Result, StringId};

/// How finely a report distinguishes frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One entry per function.
    #[default]
    Functions,
    /// One entry per function and file.
    FileFunctions,
    /// One entry per file.
    Files,
    /// One entry per source line.
    Lines,
    /// One entry per address.
    Addresses,
}

impl Granularity {
    const ALL: [Self; 5] = [Self::Functions, Self::FileFunctions, Self::Files, Self::Lines, Self::Addresses];

    /// Returns the name, as pprof spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::FileFunctions => "filefunctions",
            Self::Files => "files",
            Self::Lines => "lines",
            Self::Addresses => "addresses",
        }
    }
}

impl FromStr for Granularity {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|granularity| granularity.name() == name);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::Incompatible, format!("unknown granularity '{name}': use one of {known}"))
        })
    }
}

impl Profile {
    /// Removes everything finer than `granularity`. Without `inlines`, inlined frames are removed too, and only the
    /// real function that contains them stays. Without `columns`, column numbers go too, unless all else is kept.
    pub fn aggregate(&mut self, granularity: Granularity, inlines: bool, columns: bool) {
        use Granularity::{Addresses, FileFunctions, Files, Functions, Lines};
        if !inlines {
            self.drop_inlined_frames();
        }
        let keeps_all = granularity == Addresses && inlines;
        if !columns && !keeps_all {
            self.lines.iter_mut().for_each(|line| line.column = 0);
        }
        if granularity == Addresses {
            return;
        }
        let (keep_name, keep_file) = (granularity != Files, granularity != Functions);
        debug_assert!(matches!(granularity, Functions | FileFunctions | Files | Lines));
        for function in &mut self.functions {
            if !keep_name {
                (function.name, function.system_name) = (StringId::EMPTY, StringId::EMPTY);
            }
            if !keep_file {
                function.filename = StringId::EMPTY;
            }
        }
        if granularity != Lines {
            self.lines.iter_mut().for_each(|line| line.line = 0);
        }
        self.locations.iter_mut().for_each(|location| location.address = 0);
        for mapping in &mut self.mappings {
            mapping.symbols.functions &= keep_name;
            mapping.symbols.filenames &= keep_file;
            mapping.symbols.line_numbers &= granularity == Lines;
        }
    }

    fn drop_inlined_frames(&mut self) {
        for location in &mut self.locations {
            if location.line_count > 1 {
                location.first_line += location.line_count - 1;
                location.line_count = 1;
            }
        }
        self.mappings.iter_mut().for_each(|mapping| mapping.symbols.inline_frames = false);
    }
}
