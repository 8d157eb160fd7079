//! The stacks of a profile, as the answers need them: frames as entries or as names, whose code they are, and the
//! weight of each stack.

mod chains;
mod costs;
mod frames;
#[cfg(feature = "text")]
mod halves;
#[cfg(feature = "text")]
mod nodes;
#[cfg(feature = "text")]
mod sums;
mod table;
pub(crate) mod walk;
mod weights;

pub(crate) use chains::{Chain, Chains, FramePlace};
pub(crate) use costs::{EntryCost, costs};
pub use frames::{Frames, NameId, OwnerId};
#[cfg(feature = "text")]
pub(crate) use halves::in_halves;
#[cfg(feature = "text")]
pub(crate) use nodes::{NodeId, NodeInfo, Nodes};
#[cfg(feature = "text")]
pub(crate) use sums::sums;
pub(crate) use table::FrameTable;
pub use weights::{DIFF_BASE_LABEL, StackWeights, Value};
pub(crate) use weights::{ValuePart, base_label_sets};
