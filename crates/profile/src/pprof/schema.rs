//! The field numbers of pprof's `profile.proto`, and of flamelet's extensions to it.

pub(super) mod profile {
    pub(crate) const SAMPLE_TYPE: u32 = 1;
    pub(crate) const SAMPLE: u32 = 2;
    pub(crate) const MAPPING: u32 = 3;
    pub(crate) const LOCATION: u32 = 4;
    pub(crate) const FUNCTION: u32 = 5;
    pub(crate) const STRING_TABLE: u32 = 6;
    pub(crate) const DROP_FRAMES: u32 = 7;
    pub(crate) const KEEP_FRAMES: u32 = 8;
    pub(crate) const TIME_NANOS: u32 = 9;
    pub(crate) const DURATION_NANOS: u32 = 10;
    pub(crate) const PERIOD_TYPE: u32 = 11;
    pub(crate) const PERIOD: u32 = 12;
    pub(crate) const COMMENT: u32 = 13;
    pub(crate) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    pub(crate) const DOC_URL: u32 = 15;
    /// A flamelet extension: see [`crate::timeline`].
    pub(crate) const TIMELINE: u32 = 2601;
    /// A flamelet extension: see [`crate::timeline`].
    pub(crate) const QUALITY: u32 = 2602;
    /// A flamelet extension: see [`crate::observations`].
    pub(crate) const OBSERVATIONS: u32 = 2603;
    /// A flamelet extension: see [`crate::timeline`].
    pub(crate) const KNOWN_CRATE: u32 = 2604;
    /// A flamelet extension: see [`crate::timeline`].
    pub(crate) const HEAP_SIZES: u32 = 2605;
}

pub(super) mod value_type {
    pub(crate) const TYPE: u32 = 1;
    pub(crate) const UNIT: u32 = 2;
}

pub(super) mod sample {
    pub(crate) const LOCATION_ID: u32 = 1;
    pub(crate) const VALUE: u32 = 2;
    pub(crate) const LABEL: u32 = 3;
}

pub(super) mod label {
    pub(crate) const KEY: u32 = 1;
    pub(crate) const STR: u32 = 2;
    pub(crate) const NUM: u32 = 3;
    pub(crate) const NUM_UNIT: u32 = 4;
}

pub(super) mod mapping {
    pub(crate) const ID: u32 = 1;
    pub(crate) const MEMORY_START: u32 = 2;
    pub(crate) const MEMORY_LIMIT: u32 = 3;
    pub(crate) const FILE_OFFSET: u32 = 4;
    pub(crate) const FILENAME: u32 = 5;
    pub(crate) const BUILD_ID: u32 = 6;
    pub(crate) const HAS_FUNCTIONS: u32 = 7;
    pub(crate) const HAS_FILENAMES: u32 = 8;
    pub(crate) const HAS_LINE_NUMBERS: u32 = 9;
    pub(crate) const HAS_INLINE_FRAMES: u32 = 10;
}

pub(super) mod location {
    pub(crate) const ID: u32 = 1;
    pub(crate) const MAPPING_ID: u32 = 2;
    pub(crate) const ADDRESS: u32 = 3;
    pub(crate) const LINE: u32 = 4;
    pub(crate) const IS_FOLDED: u32 = 5;
}

pub(super) mod line {
    pub(crate) const FUNCTION_ID: u32 = 1;
    pub(crate) const LINE: u32 = 2;
    pub(crate) const COLUMN: u32 = 3;
}

pub(super) mod function {
    pub(crate) const ID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const SYSTEM_NAME: u32 = 3;
    pub(crate) const FILENAME: u32 = 4;
    pub(crate) const START_LINE: u32 = 5;
}

pub(super) mod timeline {
    pub(crate) const START_NANOS: u32 = 1;
    pub(crate) const THREAD: u32 = 2;
    pub(crate) const TIME_DELTA: u32 = 3;
    pub(crate) const SAMPLE: u32 = 4;
    pub(crate) const EVENT_THREAD: u32 = 5;
    pub(crate) const VALUE: u32 = 6;
    pub(crate) const VALUE_TYPE: u32 = 7;
}

pub(super) mod observations {
    pub(crate) const VALUE_TYPE: u32 = 1;
    pub(crate) const COUNT: u32 = 2;
    pub(crate) const SQUARES: u32 = 3;
}

pub(super) mod thread {
    pub(crate) const PID: u32 = 1;
    pub(crate) const TID: u32 = 2;
    pub(crate) const NAME: u32 = 3;
    pub(crate) const PROCESS: u32 = 4;
}

pub(super) mod heap_sizes {
    pub(crate) const TIME_DELTA: u32 = 1;
    pub(crate) const BYTES: u32 = 2;
}

pub(super) mod known_crate {
    pub(crate) const NAME: u32 = 1;
    pub(crate) const VERSION: u32 = 2;
    pub(crate) const IS_YOURS: u32 = 3;
}

pub(super) mod quality {
    pub(crate) const ENGINE: u32 = 1;
    pub(crate) const ASKED_MILLIHERTZ: u32 = 2;
    pub(crate) const ACHIEVED_MILLIHERTZ: u32 = 3;
    pub(crate) const SAMPLES: u32 = 4;
    pub(crate) const LOST: u32 = 5;
    pub(crate) const TRUNCATED: u32 = 6;
    pub(crate) const UNRESOLVED: u32 = 7;
    pub(crate) const OWN_CPU_NANOS: u32 = 8;
}
