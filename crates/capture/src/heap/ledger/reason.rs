//! Why the ledger was copied to the emergency file.

/// Why an emergency profile was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(in super::super) enum Reason {
    /// The file was only prepared.
    None = 0,
    /// The limit of a control group is near.
    Cgroup,
    /// `RLIMIT_AS` is near.
    AddressSpace,
    /// The limit that the service named is near.
    Named,
    /// The inner allocator had no memory.
    Refused,
}

impl Reason {
    pub(in super::super) const ALL: [Self; 5] =
        [Self::None, Self::Cgroup, Self::AddressSpace, Self::Named, Self::Refused];
}
