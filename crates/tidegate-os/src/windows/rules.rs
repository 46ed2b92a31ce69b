//! Other checks of file names, for comparison: only in a program built with the feature `name-rules`.
//!
//! Neither is both sound and cheap. `TIDEGATE_NAMES=long` requests the long name of the whole path from the system for
//! each request, which reads each directory; `tilde` does so only for paths with a `~` in them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use windows_sys::Win32::Storage::FileSystem::GetLongPathNameW;

/// One of the other checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `long`: the long name of every path is compared.
    Long,
    /// `tilde`: the long name of paths with a `~` is compared.
    Tilde,
}

/// Returns the check that the environment chooses; `None`: the usual one.
pub fn chosen() -> Option<Rule> {
    static CHOSEN: OnceLock<Option<Rule>> = OnceLock::new();
    *CHOSEN.get_or_init(|| match std::env::var("TIDEGATE_NAMES").ok()?.as_str() {
        "long" => Some(Rule::Long),
        "tilde" => Some(Rule::Tilde),
        _ => None,
    })
}

impl Rule {
    /// Whether the rule lets a path pass, which ends in a zero unit.
    pub fn allows(self, path: &[u16]) -> bool {
        match self {
            Rule::Tilde if !path.contains(&u16::from(b'~')) => true,
            Rule::Tilde | Rule::Long => is_long(path),
        }
    }

    /// Opens a path that the rule lets pass.
    pub fn open(self, path: &Path, access: u32) -> io::Result<File> {
        let name: Vec<u16> = super::wide(&path.to_string_lossy().replace('/', "\\"));
        match self.allows(&name) {
            true => super::open::handle(path, access, true),
            false => Err(io::Error::from_raw_os_error(super::error::INVALID)),
        }
    }
}

fn is_long(path: &[u16]) -> bool {
    let mut long = vec![0_u16; path.len() + 512];
    // SAFETY: the path ends in a zero unit, and the buffer's length is given.
    let length = unsafe { GetLongPathNameW(path.as_ptr(), long.as_mut_ptr(), long.len() as u32) };
    let name = path.split_last().map(|(_, name)| name);
    long.get(..length as usize).is_some_and(|long| Some(long) == name)
}
