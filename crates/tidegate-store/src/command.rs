//! Commands for the engine, and scripts that run there.

use std::sync::OnceLock;

use sha1::{Digest, Sha1};

use crate::key::hexadecimal;
use crate::resp::{write_count, write_word};

/// A command with its arguments, encoded.
#[derive(Debug)]
pub struct Command {
    script: Option<&'static Script>,
    /// The words in `tail`.
    words: usize,
    /// The words but those that call a script.
    tail: Vec<u8>,
}

/// A Lua script. The engine keeps it by its hash, and gets the text only where it does not have it.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    hash: OnceLock<String>,
}

impl Script {
    /// Makes a script of its text.
    pub const fn new(text: &'static str) -> Script {
        Script { text, hash: OnceLock::new() }
    }

    /// Returns the SHA-1 hash of the text in hexadecimal digits, the name that engines have for it.
    fn hash(&self) -> &str {
        self.hash.get_or_init(|| hexadecimal(&Sha1::digest(self.text)))
    }
}

impl Command {
    /// Begins a command.
    pub fn new(name: &str) -> Command {
        Command { script: None, words: 0, tail: Vec::new() }.arg(name.as_bytes())
    }

    /// Begins a call of a script with this number of keys, which are the first arguments.
    pub fn script(script: &'static Script, keys: usize) -> Command {
        Command { script: Some(script), words: 0, tail: Vec::new() }
            .arg(keys.to_string().as_bytes())
    }

    /// Appends an argument.
    pub fn push(&mut self, arg: &[u8]) {
        self.words += 1;
        write_word(&mut self.tail, arg);
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, arg: &[u8]) -> Command {
        self.push(arg);
        self
    }

    /// Appends a number as an argument.
    pub fn push_number(&mut self, number: u64) {
        self.push(number.to_string().as_bytes());
    }

    /// Returns the bytes that the command takes while it waits.
    pub fn bytes(&self) -> usize {
        self.tail.len()
    }

    pub(crate) fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Appends the command as it is sent. With `full` a script is sent as its text.
    pub(crate) fn write(&self, out: &mut Vec<u8>, full: bool) {
        let begin: &[&[u8]] = match self.script {
            None => &[],
            Some(script) if full => &[b"EVAL", script.text.as_bytes()],
            Some(script) => &[b"EVALSHA", script.hash().as_bytes()],
        };
        write_count(out, begin.len() + self.words);
        begin.iter().for_each(|word| write_word(out, word));
        out.extend_from_slice(&self.tail);
    }
}

#[cfg(test)]
mod tests;
