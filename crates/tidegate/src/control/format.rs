//! `fmt`: the configuration's files in one style.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_conf::format_text;
use tidegate_os::os_error;

use super::Session;
use super::failure::Failure;

/// Prints, checks or changes the files that are named, or all of the configuration.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let files: Vec<PathBuf> = match session.given.words.is_empty() {
        false => session.given.words.iter().map(PathBuf::from).collect(),
        true => {
            let parsed = super::files::read(&session.origin)?;
            parsed.sources.files().filter_map(|(_, file)| file.path().map(Path::to_owned)).collect()
        }
    };
    let (check, write) = (session.given.flag("check"), session.given.flag("write"));
    if check && write {
        return Err(Failure::Usage("--check and --write exclude each other".to_owned()));
    }
    let mut changed = Vec::new();
    for path in &files {
        let shown = path.display();
        let failed = |error| Failure::Other(format!("{shown}: {}", os_error(&error)));
        let text = std::fs::read(path).map_err(failed)?;
        let formatted =
            format_text(&text).map_err(|what| Failure::Other(format!("{shown}: {what}")))?;
        if formatted != text {
            changed.push(shown.to_string());
            if write {
                replace(path, &formatted).map_err(failed)?;
            }
        }
        if !check && !write && !session.json() {
            session.screen.text(&String::from_utf8_lossy(&formatted))?;
        }
    }
    if session.json() {
        session.screen.json(&json!({ "changed": changed }))?;
    } else if check || write {
        for path in &changed {
            session.screen.line(path)?;
        }
    }
    match check && !changed.is_empty() {
        true => Err(Failure::Other(String::new())),
        false => Ok(()),
    }
}

/// Replaces a file as a whole: one that is cut short would be another configuration. It stays the same file where it is
/// a link, and keeps its owner and permissions.
fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".fmt");
    let beside = path.with_file_name(name);
    let permissions = std::fs::metadata(&path)?.permissions();
    let mut file = std::fs::File::options().write(true).create_new(true).open(&beside)?;
    let written = file
        .set_permissions(permissions)
        .and_then(|()| file.write_all(text))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
