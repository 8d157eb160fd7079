//! Profiles of waits.

use std::sync::Arc;

use flamelet_profile::{Assembler, MappingId, Profile, ProfileBuilder, StackId, Timeline};
use flamelet_unwind::{Module, Modules, live};

use super::{Row, Rows};
use crate::{clock, loaded_modules};

/// Which stack of a wait a profile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that waited.
    Waiter,
    /// The one that ended the wait; waits of which it is not known are under `[unknown]`.
    Releaser,
}

/// A profile of addresses of this process that is being made.
pub struct Mapped {
    assembler: Assembler<Vec<u64>>,
    modules: Arc<Modules>,
}

impl Mapped {
    /// Starts a profile of this moment whose samples carry these values, each given as (kind, unit).
    pub fn new(sample_types: &[(&str, &str)]) -> Self {
        // Without the newest list, libraries that were loaded since have no names.
        let _ = loaded_modules::refresh();
        let mut assembler = Assembler::new(sample_types);
        assembler.builder.header_mut().time_nanos = clock::unix_nanos();
        let mut mapped = Self { assembler, modules: live::modules() };
        mapped.map_program();
        mapped
    }

    /// Adds the program's mapping first: readers take the first mapping for the program itself.
    fn map_program(&mut self) {
        let Self { assembler, modules } = self;
        let Ok(program) = std::env::current_exe() else { return };
        if let Some(module) = modules.iter().find(|module| program.as_os_str() == &*module.name) {
            mapping(assembler, module);
        }
    }

    /// Returns what interns strings, labels and samples.
    pub fn builder(&mut self) -> &mut ProfileBuilder {
        &mut self.assembler.builder
    }

    /// Finishes the profile.
    pub fn finish(self) -> Profile {
        self.assembler.finish()
    }

    /// Finishes the profile with a timeline, if there is one.
    pub fn finish_with(self, timeline: Option<Timeline>) -> Profile {
        self.assembler.builder.finish_with(timeline, None)
    }
}

/// Returns the stack of these addresses, leaf first; one frame called `missing` if there are none.
pub fn add_stack(mapped: &mut Mapped, frames: &[u64], missing: &str) -> StackId {
    let Mapped { assembler, modules } = mapped;
    if frames.is_empty() {
        let frame = assembler.builder.named_frame(missing);
        return assembler.builder.stack(&[frame]);
    }
    assembler.stack(frames.to_vec(), |assembler, locations| {
        locations.extend(frames.iter().map(|&address| {
            let mapping = modules.find(address).map(|module| mapping(assembler, module));
            assembler.builder.address(mapping, address)
        }));
    })
}

fn mapping(assembler: &mut Assembler<Vec<u64>>, module: &Module) -> MappingId {
    assembler.module(module.start, |builder| {
        let addresses = module.start..module.end;
        builder.file_mapping(addresses, module.file_offset, &module.name, &module.build_id_hex())
    })
}

/// Makes a profile of `rows` with Go's two values: how many waits, whose name is `count`, and their `delay`.
/// `more` adds labels to a row.
pub fn profile(
    rows: &Rows,
    side: Side,
    count: &str,
    more: impl Fn(&Row) -> Vec<(&'static str, &'static str)>,
) -> Profile {
    let mut mapped = Mapped::new(&[(count, "count"), ("delay", "nanoseconds")]);
    mapped.builder().set_period(count, "count", 1);
    mapped.builder().set_default_sample_type("delay");
    for row in rows.iter() {
        let frames = match side {
            Side::Waiter => &row.stack,
            Side::Releaser => &row.other,
        };
        let stack = add_stack(&mut mapped, frames, "[unknown]");
        let builder = mapped.builder();
        let own = row.labels.iter().filter(|(_, value)| !value.is_empty());
        let mut labels: Vec<_> = own.map(|(name, value)| builder.text_label(name, value)).collect();
        labels.extend(more(row).into_iter().map(|(name, value)| builder.text_label(name, value)));
        let labels = builder.labels(&labels);
        builder.merge_sample(stack, labels, &[row.count(), row.nanos()]);
    }
    if rows.lost() > 0 {
        mapped
            .builder()
            .comment(&format!("flamelet: {} sampled waits found no room in the table", rows.lost()));
    }
    mapped.finish()
}
