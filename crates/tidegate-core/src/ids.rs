//! The numbers of servers and locations: indices into the lists of a plan.

/// The index of a server block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerId(pub u32);

/// The index of a location; server blocks and `if` blocks have one as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);
