//! Names of functions from all sources: the kernel's list, the lists of processes that generate code, and the symbols
//! of files.

mod advice;
mod background;
pub(crate) mod calls;
pub(crate) mod waits;

pub(crate) use advice::{Seen, advice, runtime_line};
pub(crate) use background::{Background, Questions};

use flamelet_profile::{Profile, StringId};
use flamelet_symbol::buildid::BuildId;
use flamelet_symbol::kernel::KernelSymbols;
use flamelet_symbol::symbolize::{self, Symbolizer};
use rustc_hash::FxHashMap;

use crate::collect::Images;
use crate::generated::{GeneratedCode, Generator, Generators, MOST_OF_ALL};

/// All known names. Without any (the default), only generated code is named.
#[derive(Default)]
pub(crate) struct FoundNames {
    symbolizer: Option<Symbolizer>,
    kernel: Option<KernelSymbols>,
    /// By process; read on first use.
    generated: FxHashMap<u32, Option<GeneratedCode>>,
    /// The memory that these take.
    generated_bytes: usize,
    /// The CPU time spent in the background on finding them.
    pub(crate) cpu_nanos: u64,
}

impl FoundNames {
    fn new(symbolizer: Option<Symbolizer>, kernel: Option<KernelSymbols>, cpu_nanos: u64) -> Self {
        Self { symbolizer, kernel, cpu_nanos, ..Self::default() }
    }

    /// Returns whether the kernel shows its names.
    pub(crate) fn has_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Returns the kernel's function at `address`.
    pub(crate) fn kernel(&self, address: u64) -> Option<&str> {
        self.kernel.as_ref()?.name(address)
    }

    /// Returns the function that the process `pid`, or one whose copy it is, generated at `address`.
    pub(crate) fn generated(&mut self, generators: &Generators, pid: u32, address: u64) -> Option<&str> {
        let named = generators
            .with_parents(pid)
            .find_map(|generator| self.list(generator)?.name(address).is_some().then_some(generator.pid()))?;
        self.generated.get(&named)?.as_ref()?.name(address)
    }

    fn list(&mut self, generator: &Generator) -> Option<&GeneratedCode> {
        let used = &mut self.generated_bytes;
        let list = self.generated.entry(generator.pid()).or_insert_with(|| {
            let list = GeneratedCode::of(generator, MOST_OF_ALL.saturating_sub(*used))?;
            *used += list.used;
            Some(list)
        });
        list.as_ref()
    }

    /// Returns how many processes listed more functions than there was room for.
    fn cut_lists(&self) -> usize {
        self.generated.values().flatten().filter(|list| list.is_cut).count()
    }

    /// Returns whether the process has listed the code that it generated. Its names must have been requested.
    fn has_list(&self, pid: u32) -> bool {
        self.generated.get(&pid).is_some_and(Option::is_some)
    }

    /// Names the remaining locations of `profile` by the symbols of their files, if that was requested.
    pub(crate) fn symbolize(
        &mut self,
        profile: &mut Profile,
        images: &Images,
    ) -> Option<symbolize::SymbolizeSummary> {
        let symbolizer = self.symbolizer.as_mut()?;
        let renamed = point_at_open_fds(profile, images);
        let summary = symbolizer.symbolize_profile(profile);
        for (at, filename) in renamed {
            profile.mappings_mut()[at].filename = filename;
        }
        Some(summary)
    }
}

/// Changes mappings whose names do not lead to their files so that they name open descriptors instead. Returns the
/// indices of these mappings and their old names.
fn point_at_open_fds(profile: &mut Profile, images: &Images) -> Vec<(usize, StringId)> {
    let mut renamed = Vec::new();
    for at in 0..profile.mappings().len() {
        let mapping = profile.mappings()[at];
        let id = BuildId::from_hex(profile.string(mapping.build_id));
        let id = id.as_ref().map_or(&[][..], |id| id.as_bytes());
        if let Some(path) = images.moved_file(profile.string(mapping.filename), id) {
            let path = profile.intern(&path.to_string_lossy());
            renamed.push((at, mapping.filename));
            profile.mappings_mut()[at].filename = path;
        }
    }
    renamed
}
