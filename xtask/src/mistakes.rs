//! The diagnostics of Tidegate and a genuine nginx for the typical mistakes of `tests/mistakes`, side by side.

use std::path::{Path, PathBuf};
use std::process::Command;

const LIST: &str = "tests/mistakes/typical.txt";
const USAGE: &str = "usage: cargo xtask mistakes --nginx PROGRAM --tidegate PROGRAM";

/// Runs both programs on each configuration and prints their output.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let program = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option).ok_or(USAGE)?;
        let path = arguments.get(at + 1).ok_or(USAGE)?;
        std::path::absolute(path).map_err(|error| format!("{path}: {error}"))
    };
    let (nginx, tidegate) = (program("--nginx")?, program("--tidegate")?);
    let list = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let directory = root.join("target/mistakes");
    std::fs::create_dir_all(directory.join("logs")).map_err(|error| error.to_string())?;
    for section in list.split("\n===== ").skip(1) {
        let input = section.split("\n-----\n").next().unwrap_or(section);
        let (name, config) = input.split_once('\n').unwrap_or((input, ""));
        let written = std::fs::write(directory.join("nginx.conf"), format!("{config}\n"));
        written.map_err(|error| error.to_string())?;
        println!("===== {name}\n{config}");
        println!("----- nginx\n{}", messages(&nginx, &directory)?);
        println!("----- tidegate\n{}", messages(&tidegate, &directory)?);
    }
    Ok(true)
}

fn messages(program: &PathBuf, directory: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(["-t", "-c", "nginx.conf", "-p"])
        .arg(directory)
        .current_dir(directory)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(text.replace(&*directory.to_string_lossy(), "{dir}"))
}
