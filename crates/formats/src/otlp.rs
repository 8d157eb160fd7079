//! OTLP profiles, schema `v1development` (one sample type per profile, everything shared in one dictionary), as
//! protobuf and as JSON.
//!
//! The schema is not stable; the field numbers are those of opentelemetry-proto 1.9, which has stack tables and
//! singular sample types. Files of older drafts cannot be read.

mod links;
mod model;
mod proto;
mod read;
mod write;

use flamelet_profile::{Budget, Profile, Result};

pub use read::OtlpResource;

use crate::input::Input;
use crate::output::Output;
use crate::{FormatOptions, Notes, json};

/// Returns whether `bytes` are OTLP protobuf: only the two fields of `ProfilesData`, the second of which looks like a
/// dictionary. pprof's message has more fields, and its second is a sample.
pub(crate) fn recognise(bytes: &[u8], is_all: bool) -> bool {
    proto::looks_like_otlp(bytes, is_all)
}

/// Returns whether a file with these keys is `ProfilesData`.
pub(crate) fn recognise_json(keys: &json::Keys<'_>) -> bool {
    keys.has("resourceProfiles")
}

/// Reads protobuf.
pub(crate) fn read(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let data = proto::decode(&input.slurp()?, budget)?;
    read::to_profile(&data, options, budget, notes)
}

/// Reads JSON.
pub(crate) fn read_json(input: Input<'_>, options: &FormatOptions, notes: &mut Notes) -> Result<Profile> {
    let budget = &input.budget().clone();
    let data: model::ProfilesData = json::parse(&input.slurp()?, "OTLP", budget)?;
    read::to_profile(&data, options, budget, notes)
}

/// Reads a message that was sent, in JSON or protobuf, into the profiles of each resource. A message without profiles is
/// empty, and not an error.
pub fn read_otlp(bytes: &[u8], is_json: bool, options: &FormatOptions) -> Result<Vec<OtlpResource>> {
    let (budget, mut notes) = (Budget::new(options.limits), Notes::default());
    let data = match is_json {
        true => json::parse(bytes, "OTLP", &budget)?,
        false => proto::decode(bytes, &budget)?,
    };
    let resources = read::by_resource(&data, options, &budget, &mut notes)?;
    budget.check()?;
    Ok(resources)
}

/// Writes protobuf.
pub(crate) fn write(profile: &Profile, Output { out, notes, .. }: Output<'_>) -> Result<()> {
    out.write_all(&proto::encode(&write::from_profile(profile, notes)))?;
    Ok(())
}

/// Writes JSON.
pub(crate) fn write_json(profile: &Profile, Output { out, notes, .. }: Output<'_>) -> Result<()> {
    json::write(out, &write::from_profile(profile, notes))
}
