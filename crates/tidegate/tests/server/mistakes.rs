//! `tests/mistakes`: the messages of `-t` for typical mistakes. `UPDATE=1` writes the expected texts again.

use std::path::Path;
use std::process::Command;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mistakes/typical.txt");
const HEAD: &str = "\n===== ";
const DASHES: &str = "\n-----\n";

#[test]
fn typical_mistakes_are_explained() {
    let list = std::fs::read_to_string(LIST).unwrap();
    let mut sections = list.split(HEAD);
    let mut found_all = sections.next().unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    let mut count = 0;
    for section in sections {
        let (input, expected) = section.split_once(DASHES).unwrap();
        let (name, config) = input.split_once('\n').unwrap();
        let found = messages(config);
        if found.trim_end() != expected.trim_end() {
            wrong.push(format!("{name}:\n--- expected\n{expected}\n--- found\n{found}"));
        }
        found_all.push_str(&format!("{HEAD}{input}{DASHES}{found}"));
        count += 1;
    }
    assert!(count >= 65, "mistakes are missing");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(LIST, found_all).unwrap();
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Returns the program's messages for a configuration; its own directory is shown as `{dir}`.
fn messages(config: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path: &Path = dir.path();
    std::fs::create_dir(path.join("logs")).unwrap();
    std::fs::write(path.join("nginx.conf"), format!("{config}\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["-t", "-c", "nginx.conf", "-p"])
        .arg(path)
        .current_dir(path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.replace(&*path.to_string_lossy(), "{dir}")
}
