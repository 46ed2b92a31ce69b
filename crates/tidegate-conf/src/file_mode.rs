//! Permissions of files that are created for clients: `user:rw group:rw all:r` (`*_store_access`,
//! `dav_access`).

use crate::{Args, Diagnostic};

/// Returns the mode bits of a directive's arguments; the user gets `rw` where no argument is about the user.
///
/// # Errors
/// An argument is not `user`, `group` or `all` with `:r`, `:w` or `:rw`.
pub fn read(args: &Args<'_>) -> Result<u32, Diagnostic> {
    let mut mode = 0;
    let mut user = 0o600;
    for index in 0..args.len() {
        let text = args.bytes(index);
        let colon = text.iter().position(|byte| *byte == b':').filter(|at| at + 1 < text.len());
        let Some(colon) = colon else { return Err(invalid(args, index)) };
        let (who, what) = (&text[..colon], &text[colon + 1..]);
        let shift = match who {
            b"user" => {
                user = 0;
                6
            }
            b"group" => 3,
            b"all" => 0,
            _ => return Err(invalid(args, index)),
        };
        for byte in what {
            mode |= match byte {
                b'r' => 4 << shift,
                b'w' => 2 << shift,
                _ => return Err(invalid(args, index)),
            };
        }
    }
    Ok(mode | user)
}

/// Returns the mode of directories that are created for a file of this mode: search permission wherever it
/// has read or write permission.
pub fn of_directory(mode: u32) -> u32 {
    [6, 3, 0].iter().fold(mode, |all, shift| match (mode >> shift) & 6 {
        0 => all,
        _ => all | 1 << shift,
    })
}

fn invalid(args: &Args<'_>, index: usize) -> Diagnostic {
    let message = format!("invalid value \"{}\"", args.word(index).display());
    args.error(index, message).label("expected `user`, `group` or `all` and `:r` or `:rw`")
}
