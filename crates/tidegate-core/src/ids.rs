//! The numbers by which a request knows its server and its location: places in the lists of its plan.

/// A server block's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerId(pub u32);

/// A location's number; a server block and an `if` block have one as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);
