//! The data model of flamelet: a [`Profile`], and the operations on it.
//!
//! A profile is stored in columns: interned strings, functions, mappings, locations with their inlined
//! lines, stacks as one flat array, interned label sets, and samples that name a stack, a label set and
//! values. Ids are types of their own ([`StackId`], [`LocationId`], …), never bare integers.
//!
//! | to … | use |
//! |---|---|
//! | make a profile from a capture | [`Assembler`] |
//! | make any other profile | [`ProfileBuilder`] |
//! | read and write the native file | [`pprof`] |
//! | combine profiles | [`merge`], [`Profile::scale`], [`Profile::normalize_to`] |
//! | keep part of a profile | [`filter`] (feature `filter`), [`Profile::aggregate`] |
//! | know how exact a value is | [`observations`], [`Profile::observed`] |
//! | understand units | [`mod@unit`] |
//! | read and write moments in time | [`moment`] |
//! | read and write other protobuf messages | [`protobuf`] |
//! | read and write hexadecimal digits, undo the escapes of URLs | [`hex`], [`percent`] |
//! | limit what reading may take | [`mod@budget`] |
//! | open a file that a profile names | [`open_regular()`] |

mod aggregate;
mod allocation;
mod assembler;
pub mod budget;
mod builder;
mod dropped;
mod error;
#[cfg(feature = "filter")]
pub mod filter;
mod heap_size;
mod heap_view;
pub mod hex;
mod ids;
mod merge;
mod model;
pub mod moment;
mod number_units;
pub mod observations;
mod open_regular;
pub mod percent;
pub mod pprof;
pub mod protobuf;
mod random;
mod regroup;
mod rows;
mod sample_types;
mod sort;
mod strings;
pub mod terminal;
pub mod timeline;
mod timeline_values;
pub mod trend;
pub mod unit;

pub use aggregate::Granularity;
pub use allocation::allocation_frames;
pub use assembler::{Assembler, TimelineBuilder};
pub use budget::{Budget, Limits};
pub use builder::ProfileBuilder;
pub use error::{Error, ErrorKind, Result};
pub use heap_size::{HeapSize, HeapSizes, MOST_HEAP_SIZES};
pub use heap_view::HeapView;
pub use ids::{FunctionId, LabelSetId, LocationId, MappingId, StackId, StringId, ThreadId};
pub use merge::{merge, merge_within};
pub use model::{
    Function, Header, KERNEL_MAPPING, KERNEL_START, KnownCrate, Label, Line, Location, Mapping,
    MappingSymbols, NamedLine, Profile, Relabel, Renamed, Sample, ValueType,
};
pub use number_units::number_units;
pub use observations::{Observations, Observed};
pub use open_regular::{is_below, open_below, open_regular, real_path};
pub use random::Random;
pub use rows::InternedLists;
pub use sort::{sort_rows, sort_rows_by_key};
pub use strings::StringTable;
pub use timeline::{Event, Quality, Thread, Timeline};
