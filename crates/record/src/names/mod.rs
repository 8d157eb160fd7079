//! Names of functions from all sources: the kernel's list, the perf maps of processes that generate code, and the
//! symbols of files.

mod background;
pub(crate) mod calls;
mod perf_map;
pub(crate) mod waits;

pub(crate) use background::{Background, Questions};

use flamelet_profile::{Profile, StringId};
use flamelet_symbol::buildid::BuildId;
use flamelet_symbol::kernel::KernelSymbols;
use flamelet_symbol::symbolize::{self, Symbolizer};
use rustc_hash::FxHashMap;

use crate::collect::Images;
use perf_map::PerfMap;

/// All known names. Without any (the default), only generated code is named.
#[derive(Default)]
pub(crate) struct FoundNames {
    symbolizer: Option<Symbolizer>,
    kernel: Option<KernelSymbols>,
    /// By process; read on first use.
    perf_maps: FxHashMap<u32, Option<PerfMap>>,
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

    /// Returns the function that the process `pid` generated at `address`.
    pub(crate) fn generated(&mut self, pid: u32, address: u64) -> Option<&str> {
        let map = self.perf_maps.entry(pid).or_insert_with(|| PerfMap::of_process(pid));
        map.as_ref()?.name(address)
    }

    /// Names the remaining locations of `profile` by the symbols of their files, if that was requested.
    pub(crate) fn symbolize(&mut self, profile: &mut Profile, images: &Images) -> Option<symbolize::Summary> {
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
