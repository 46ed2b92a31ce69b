//! A connection as tables of frames, floods, and pairs of connections.

mod floods;
mod pair;
mod priorities;
mod protocol;
mod support;
