//! The rows of a segment's tables, and the numbers of the fields that hold them.
//!
//! A record is a protobuf message. One without a tag has the rows that are new in its segment, each table with the number of
//! its first new row, so a reader that has missed a record knows which rows it lacks. One with a tag is a window; the tag
//! says when it was and what it measures, so that a reader can pass it over.

/// A file that code was mapped from. Strings are given by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StoredModule {
    pub(crate) build_id: u32,
    pub(crate) file: u32,
    /// Where the mapped part begins in the file, and its length.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Where it was mapped in the first process that used it.
    pub(crate) start: u64,
}

/// A frame: code in a module, a bare address, or only a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StoredFrame {
    /// The number of the module plus one; 0 for none.
    pub(crate) module: u32,
    /// The offset in the module's file, or the address without one.
    pub(crate) offset: u64,
    /// The name and source file of a frame that cannot be looked up later.
    pub(crate) name: u32,
    pub(crate) file: u32,
}

/// A label, by the numbers of its strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LabelRow {
    pub(crate) key: u32,
    pub(crate) text: u32,
    pub(crate) number: i64,
    pub(crate) unit: u32,
}

/// The fields of a record.
pub(crate) mod field {
    pub(crate) const STRING: u32 = 1;
    pub(crate) const FIRST_STRING: u32 = 2;
    pub(crate) const MODULE: u32 = 3;
    pub(crate) const FIRST_MODULE: u32 = 4;
    pub(crate) const FRAME_MODULE: u32 = 5;
    /// Zigzag, each as the difference to the one before.
    pub(crate) const FRAME_OFFSET: u32 = 6;
    /// Left out when no new frame has a name.
    pub(crate) const FRAME_NAME: u32 = 7;
    pub(crate) const FRAME_FILE: u32 = 8;
    pub(crate) const FIRST_FRAME: u32 = 9;
    /// How many rows before this one its caller is. Row 0 is the empty stack.
    pub(crate) const NODE_BACK: u32 = 10;
    pub(crate) const NODE_FRAME: u32 = 11;
    pub(crate) const FIRST_NODE: u32 = 12;
    pub(crate) const LABEL_SET: u32 = 13;
    pub(crate) const FIRST_LABEL_SET: u32 = 14;
    pub(crate) const ROW_NODE: u32 = 15;
    pub(crate) const ROW_LABELS: u32 = 16;
    pub(crate) const FIRST_ROW: u32 = 17;
    pub(crate) const KIND: u32 = 18;
    pub(crate) const FIRST_KIND: u32 = 19;
}

/// The fields of a module.
pub(crate) mod module_field {
    pub(crate) const BUILD_ID: u32 = 1;
    pub(crate) const FILE: u32 = 2;
    pub(crate) const OFFSET: u32 = 3;
    pub(crate) const SIZE: u32 = 4;
    pub(crate) const START: u32 = 5;
}

/// The fields of a kind. All strings are numbers; values are pairs of them.
pub(crate) mod kind_field {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const VALUES: u32 = 2;
    pub(crate) const PERIOD_TYPE: u32 = 3;
    pub(crate) const PERIOD: u32 = 4;
    pub(crate) const SHOWN_FIRST: u32 = 5;
    pub(crate) const DROP_FRAMES: u32 = 6;
}

/// The fields of a window.
pub(crate) mod window_field {
    /// Sorted; each as the difference to the one before.
    pub(crate) const ROWS: u32 = 1;
    /// A column of values.
    pub(crate) const COLUMN: u32 = 2;
    pub(crate) const QUALITY: u32 = 3;
    /// What the values are based on, see [`crate::segment::observed`].
    pub(crate) const OBSERVED: u32 = 4;
    /// How many windows it is the sum of; left out for one.
    pub(crate) const WINDOWS: u32 = 5;
}

/// The fields of a column of values.
pub(crate) mod column_field {
    /// Zigzag: each value is this many times that of the first column.
    pub(crate) const RATIO: u32 = 1;
    /// Zigzag values.
    pub(crate) const VALUES: u32 = 2;
}

/// The fields of a window's quality, in the order of `flamelet_profile::Quality`.
pub(crate) mod quality_field {
    pub(crate) const ENGINE: u32 = 1;
    pub(crate) const ASKED: u32 = 2;
    pub(crate) const ACHIEVED: u32 = 3;
    pub(crate) const SAMPLES: u32 = 4;
    pub(crate) const LOST: u32 = 5;
    pub(crate) const TRUNCATED: u32 = 6;
    pub(crate) const OWN_CPU: u32 = 7;
}
