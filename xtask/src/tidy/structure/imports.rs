//! The imports between the files of a crate: by `use`, and by paths that begin with `crate`, `super` or `self`.
//!
//! The root file of a crate is its list of modules and re-exports, and not a member of a circle. Test code does not count.

use super::super::source::Source;
use super::circles::Graph;

/// The files of one crate as modules (`a/b` for `src/a/b.rs`), with those that they name.
pub(super) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Graph {
    let files: Vec<(String, &Source)> =
        sources.filter_map(|source| Some((module(&source.path)?, source))).collect();
    let mut graph: Graph = files.iter().map(|(name, _)| (name.clone(), Vec::new())).collect();
    for (name, source) in &files {
        let named = paths(&product_text(source));
        let targets = named.iter().filter_map(|path| target(&graph, name, path));
        let targets: Vec<String> = targets.filter(|target| target != name).collect();
        graph.insert(name.clone(), targets);
    }
    graph
}

/// The module of a file below `src`; `None` for the root and for programs.
fn module(path: &str) -> Option<String> {
    let inside = path.split_once("/src/")?.1.strip_suffix(".rs")?;
    let is_root = matches!(inside, "lib" | "main") || inside.starts_with("bin/");
    (!is_root).then(|| inside.to_owned())
}

fn product_text(source: &Source) -> String {
    let lines = source.lines().filter(|(line, _, _)| !source.is_test_line(*line));
    lines.flat_map(|(_, masked, _)| [masked, "\n"]).collect()
}

/// Returns the module of a path, relative to another one.
fn target(graph: &Graph, from: &str, path: &[String]) -> Option<String> {
    let mut at: Vec<&str> = from.split('/').collect();
    let mut rest = path;
    match path.first().map(String::as_str)? {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        // A submodule.
        first if graph.contains_key(&format!("{from}/{first}")) => {}
        _ => return None,
    }
    at.extend(rest.iter().map(String::as_str));
    (1..=at.len()).rev().map(|words| at[..words].join("/")).find(|name| graph.contains_key(name))
}

/// Returns all paths of a masked text: those of `use`, with expanded braces, and those in the code.
pub(super) fn paths(masked: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut code = String::new();
    let mut rest = masked;
    while let Some((before, tree, after)) = next_use(rest) {
        code.push_str(before);
        code.push('\n');
        spell(&[], tree, &mut found);
        rest = after;
    }
    code.push_str(rest);
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let inside = code[..at].chars().next_back();
            if !inside.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
                let end = code[at..].find(|c| !is_path(c)).map_or(code.len(), |end| at + end);
                found.push(words(&code[at..end]));
            }
        }
    }
    found
}

/// Returns the text before the next `use`, its tree, and the text after it.
fn next_use(text: &str) -> Option<(&str, &str, &str)> {
    // Not the name `r#use` of a field.
    let begin = super::super::source::word_positions(text, "use")
        .find(|begin| !text[..*begin].ends_with('#'))?;
    let end = begin + text[begin..].find(';')?;
    Some((&text[..begin], &text[begin + 3..end], &text[end + 1..]))
}

fn spell(prefix: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        found.push([prefix, &words(path)].concat());
        return;
    };
    let prefix = [prefix, &words(&tree[..open])].concat();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[begin..at].trim().is_empty() {
                    spell(&prefix, &inside[begin..at], found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

fn words(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
