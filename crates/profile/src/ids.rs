//! A separate id type for each table, so that a function can never be looked up with a location's number.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// An id that no row has.
            pub const MAX: Self = Self(u32::MAX);

            /// The id of the row at `index`.
            ///
            /// # Panics
            /// When `index` does not fit 32 bits; every table refuses to grow that far.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("a table holds fewer than 2^32 rows"))
            }

            /// Returns the row in its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// An interned string. Id 0 is always the empty string.
    StringId
);
id!(
    /// A row of [`Profile::functions`](crate::Profile::functions).
    FunctionId
);
id!(
    /// A row of [`Profile::mappings`](crate::Profile::mappings).
    MappingId
);
id!(
    /// A row of [`Profile::locations`](crate::Profile::locations).
    LocationId
);
id!(
    /// A stack: a list of locations, leaf first.
    StackId
);
id!(
    /// An interned set of labels. Id 0 is always the empty set.
    LabelSetId
);
id!(
    /// A row of [`Timeline::threads`](crate::Timeline::threads).
    ThreadId
);

impl StringId {
    /// The empty string, which every table holds at row 0.
    pub const EMPTY: Self = Self(0);

    /// Returns whether this is the empty string.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl LabelSetId {
    /// The set without labels, which every profile holds at row 0.
    pub const EMPTY: Self = Self(0);
}
