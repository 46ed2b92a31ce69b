//! Examples of directives: statements of the configurations that the end-to-end cases run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate_conf::{FsLoader, Parser, Statement, print_word};

use super::{Scope, Subject};

/// Longest example.
const BYTES_MAX: usize = 90;
/// Replacements of a case's placeholders.
const NAMES: [(&str, &str); 11] = [
    ("{front}", "127.0.0.1:8080"),
    ("{front2}", "127.0.0.1:8081"),
    ("{o1}", "backend.example"),
    ("{o2}", "backup.example"),
    ("{dir}", "/srv"),
    ("{s1}", "127.0.0.1:514"),
    ("{n1}", "127.0.0.53"),
    ("{u1} quic", "127.0.0.1:8443 quic"),
    ("{u1}", "127.0.0.1:5353"),
    ("{certificate}", "/srv/certificate.pem"),
    ("{key}", "/srv/certificate-key.pem"),
];

/// Returns for each directive the statement of most cases; of two the shorter one, then the first in alphabetical order.
pub(super) fn collect(directory: &Path) -> Result<BTreeMap<Subject, String>, String> {
    let mut counts: BTreeMap<Subject, BTreeMap<String, usize>> = BTreeMap::new();
    let texts = files(directory)?;
    let fixtures: BTreeMap<&str, &str> = texts.iter().flat_map(|text| fixtures(text)).collect();
    for text in &texts {
        for case in text.split("\n# ") {
            for (subject, statement) in of_case(case, &fixtures) {
                *counts.entry(subject).or_default().entry(statement).or_default() += 1;
            }
        }
    }
    let best = |(subject, found): (Subject, BTreeMap<String, usize>)| {
        let example = found.into_iter().max_by(|(a, count), (b, other)| {
            count.cmp(other).then(b.len().cmp(&a.len())).then(b.cmp(a))
        });
        example.map(|(statement, _)| (subject, statement))
    };
    Ok(counts.into_iter().filter_map(best).collect())
}

fn files(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            texts.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            texts.push(std::fs::read_to_string(&path).map_err(failed)?);
        }
    }
    Ok(texts)
}

/// Name and content of the blocks `fixture NAME`.
fn fixtures(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```fixture ").skip(1).filter_map(|rest| rest.split("```").next()?.split_once('\n'))
}

/// The statements of a case's own configuration. Those of further ones are often mistakes on purpose, and so are
/// those of cases about messages.
fn of_case(case: &str, fixtures: &BTreeMap<&str, &str>) -> BTreeSet<(Subject, String)> {
    let block = case.split("```nginx\n").nth(1).and_then(|rest| rest.split("```").next());
    let wrong = case.contains("check output") || case.contains("```each");
    let mut found = BTreeSet::new();
    if let Some(block) = block.filter(|_| !wrong) {
        let block: Vec<&str> = block
            .lines()
            .map(|line| {
                let name = line.trim().strip_prefix("fixture ");
                let name = name.and_then(|name| name.strip_suffix(';'));
                name.and_then(|name| fixtures.get(name)).copied().unwrap_or(line)
            })
            .collect();
        let block = block.join("\n");
        let text = NAMES.iter().fold(block, |text, (from, to)| text.replace(from, to));
        let statements = Parser::new(&FsLoader, "/nowhere").parse_fragment("case", text.as_bytes());
        gather(&statements, Scope::Http, &mut found);
    }
    found
}

fn gather(statements: &[Statement], scope: Scope, found: &mut BTreeSet<(Subject, String)>) {
    for statement in statements {
        let name = statement.name.display().into_owned();
        let within = if name == "stream" { Scope::Stream } else { scope };
        gather(statement.children(), within, found);
        let text = written(statement);
        if text.len() <= BYTES_MAX && !text.contains('`') && text.is_ascii() {
            found.insert(((name, scope), text));
        }
    }
}

fn written(statement: &Statement) -> String {
    let mut bytes = Vec::new();
    for word in std::iter::once(&statement.name).chain(&statement.args) {
        if !bytes.is_empty() {
            bytes.push(b' ');
        }
        print_word(word, &mut bytes);
    }
    bytes.extend_from_slice(if statement.block.is_some() { b" { ... }" } else { b";" });
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{fixtures, of_case};
    use crate::docs::Scope;

    #[test]
    fn examples_are_the_statements_of_a_cases_own_configuration() {
        let case = "Title\n```nginx\nstream { server { listen {front}; } }\nfixture f;\n```\n\
                    ```nginx other\nwrong;\n```\n```script\nGET / -> 200\n```\n";
        let shared = fixtures("Text.\n```fixture f\nroot \"/a b\";\n```\n").collect();
        let found = of_case(case, &shared);
        let expected = [
            ("listen", Scope::Stream, "listen 127.0.0.1:8080;"),
            ("root", Scope::Http, "root \"/a b\";"),
            ("server", Scope::Stream, "server { ... }"),
            ("stream", Scope::Http, "stream { ... }"),
        ];
        let expected =
            expected.map(|(name, scope, text)| ((name.to_owned(), scope), text.to_owned()));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
        let wrong = case.replace("GET / -> 200", "check output contains \"x\"");
        assert!(of_case(&wrong, &shared).is_empty());
    }
}
