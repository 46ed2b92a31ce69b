//! Commands as they are sent.

use super::{Command, Script};

static SCRIPT: Script = Script::new("return 1");

#[test]
fn commands_are_lists_of_texts() {
    let mut out = Vec::new();
    Command::new("SET").arg(b"a\r\nb").arg(b"").write(&mut out, false);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
}

#[test]
fn scripts_are_called_by_their_hash_or_text() {
    let mut command = Command::script(&SCRIPT, 1).arg(b"key");
    command.push_number(7);
    let (mut by_hash, mut by_text) = (Vec::new(), Vec::new());
    command.write(&mut by_hash, false);
    command.write(&mut by_text, true);
    let tail = "$1\r\n1\r\n$3\r\nkey\r\n$1\r\n7\r\n";
    let hash = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let expected = format!("*5\r\n$7\r\nEVALSHA\r\n$40\r\n{hash}\r\n{tail}");
    assert_eq!(String::from_utf8(by_hash), Ok(expected));
    let expected = format!("*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n{tail}");
    assert_eq!(String::from_utf8(by_text), Ok(expected));
}
