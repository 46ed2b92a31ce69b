//! The list of configurations and their repositories.
//!
//! A line of the list is `repository TAB path TAB context TAB verdict…`; the first line names the columns. The
//! repositories are in one directory: `OWNER+NAME` is a work tree, `OWNER+NAME/repo` a bare or common git directory.

use crate::bell::Failure;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest size of a file, in bytes: configurations are smaller.
const FILE_BYTES_MAX: usize = 1 << 20;

/// The context of a configuration, which decides its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Main,
    Http,
    Server,
    Location,
    Stream,
}

/// One configuration to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub repository: String,
    pub path: String,
    /// The contexts that it may belong to, the likeliest first.
    pub contexts: Vec<Context>,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.repository, self.path)
    }
}

/// The rows of a list. Blocks of a document (`README.md.0003.conf`) become one row for the document.
pub(super) fn parse(text: &str) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let wrong = |what| Failure::new(format!("line {} of the list: {what}", index + 1));
        let mut columns = line.split('\t');
        let (Some(repository), Some(path), Some(context)) =
            (columns.next(), columns.next(), columns.next())
        else {
            return Err(wrong("not three columns"));
        };
        let contexts = match context {
            "main" => vec![Context::Main],
            "http" => vec![Context::Http],
            "server" => vec![Context::Server],
            "location" => vec![Context::Location],
            "stream" => vec![Context::Stream],
            _ => return Err(wrong("an unknown context")),
        };
        let row = match document(path) {
            None => Row { repository: repository.into(), path: path.into(), contexts },
            Some(document) => {
                Row { repository: repository.into(), path: document.into(), contexts: vec![] }
            }
        };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The document of a path that names one of its blocks.
fn document(path: &str) -> Option<&str> {
    let (document, number) = path.strip_suffix(".conf")?.rsplit_once('.')?;
    let numbered = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (numbered && (document.ends_with(".md") || document.ends_with(".rst"))).then_some(document)
}

/// Returns the fenced blocks of a document whose fence says that they are configurations.
pub(super) fn fenced(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        if let Some(language) = bare.strip_prefix("```") {
            match block.take() {
                None => block = Some((matches!(language.trim(), "nginx" | ""), String::new())),
                Some((true, text)) => blocks.push(text),
                Some((false, _)) => {}
            }
        } else if let Some((_, text)) = &mut block {
            text.push_str(line);
            text.push('\n');
        }
    }
    blocks
}

/// A repository's files at its newest commit.
#[derive(Debug)]
pub(super) struct Mirror {
    place: Place,
    paths: BTreeSet<String>,
}

#[derive(Debug)]
enum Place {
    Git(PathBuf),
    Directory(PathBuf),
}

impl Mirror {
    /// Opens the repository's copy below `mirrors`.
    pub(super) fn open(mirrors: &Path, repository: &str) -> Result<Self, Failure> {
        let home = mirrors.join(repository.replace('/', "+"));
        let git = ["repo/.git", "repo"].map(|name| home.join(name));
        match git.into_iter().find(|path| path.join("HEAD").is_file()) {
            Some(git) => {
                let list = run_git(&git, &["ls-tree", "-r", "--name-only", "-z", "HEAD"])?;
                let list = String::from_utf8_lossy(&list);
                let paths = list.split('\0').filter(|path| !path.is_empty());
                Ok(Self { paths: paths.map(str::to_owned).collect(), place: Place::Git(git) })
            }
            None if home.is_dir() => {
                let mut paths = BTreeSet::new();
                walk(&home, "", &mut paths)?;
                Ok(Self { place: Place::Directory(home), paths })
            }
            None => Err(Failure::new(format!("no copy of {repository}"))),
        }
    }

    /// A file's bytes.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let mut bytes = match &self.place {
            Place::Git(git) => run_git(git, &["show", &format!("HEAD:{path}")])?,
            Place::Directory(home) => std::fs::read(home.join(path))
                .map_err(|error| Failure::new(format!("{path}: {error}")))?,
        };
        bytes.truncate(FILE_BYTES_MAX);
        Ok(bytes)
    }

    /// Returns the file that an `include` in the file `from` means: the one beside it, or the one whose path has most in
    /// common with the wanted path at its end, and among those the one nearest to `from`.
    pub(super) fn included(&self, from: &str, include: &str) -> Option<&str> {
        let wanted: Vec<&str> = include.split('/').filter(|part| !part.is_empty()).collect();
        let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
        let beside = format!("{directory}/{}", wanted.join("/"));
        if let Some(path) = self.paths.get(beside.trim_start_matches('/')) {
            return Some(path);
        }
        let end = |path: &str| {
            path.split('/').rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == *b).count()
        };
        let begin =
            |path: &str| path.split('/').zip(from.split('/')).take_while(|(a, b)| a == b).count();
        let others = self.paths.iter().filter(|path| *path != from);
        let best = others.max_by_key(|path| (end(path), begin(path)))?;
        (end(best) >= 2).then_some(best.as_str())
    }
}

fn walk(home: &Path, prefix: &str, paths: &mut BTreeSet<String>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", home.display()));
    for entry in std::fs::read_dir(home.join(prefix)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            walk(home, &format!("{path}/"), paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

fn run_git(git: &Path, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("git").arg("--git-dir").arg(git).args(arguments).output();
    let output = output.map_err(|error| Failure::new(format!("cannot run git: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
