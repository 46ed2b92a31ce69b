//! The index: the data in memory about each key. It never touches the disk.
//!
//! A node may count uses of a key that has no file yet (`min_uses`), have a file, have a running fill, or the
//! last two together (a stale entry that is being refreshed). Nodes are in two orders: the order of use, for
//! `inactive`, and the queues of [`crate::evict`], for room.
//!
//! The index also keeps the account of the disk: bytes of files, of fills that are being written and of files
//! that are to be removed. Space is charged before it is taken and given back when it is free, so the account
//! is never less than the space in use.
//!
//! Locks: the lock of the queues is taken before that of a shard.

mod entry;
mod fills;
mod purge;
mod remembered;
mod room;
mod shard;
mod table;

pub(crate) use entry::{BLOCK_BYTES, Present, Remembered};
pub(crate) use fills::{BeginResult, Replaceable};
pub(crate) use remembered::FileCheck;
pub(crate) use room::Victim;
#[cfg(test)]
pub(crate) use shard::ENTRY_BYTES;
pub(crate) use table::{Index, NodeView};
