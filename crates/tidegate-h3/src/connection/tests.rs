//! The server's end against a client made of frames: messages, mistakes, limits.

mod floods;
mod messages;
mod mistakes;
mod support;
