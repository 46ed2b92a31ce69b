//! `lint`: parts of the configuration that are valid and probably wrong. Each rule looks at one statement and the blocks
//! around it, and says what to write instead.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use tidegate_conf::{Diagnostic, SourceMap, Statement, Word};

use super::Session;
use super::failure::Failure;

/// What a rule has found: the message, and what to write instead.
type Finding = Option<(String, &'static str)>;

/// A rule: its name, and a function of a statement and the blocks around it, the outermost first.
type Rule = (&'static str, fn(&Statement, &[&Statement]) -> Finding);

const RULES: &[Rule] = &[
    ("alias-traversal", alias_traversal),
    ("header-splitting", header_splitting),
    ("request-forgery", request_forgery),
    ("host-spoofing", host_spoofing),
    ("headers-lost", headers_lost),
    ("allow-without-deny", allow_without_deny),
    ("old-protocol", old_protocol),
    ("unescaped-dot", unescaped_dot),
];

/// Prints what is found; there is something if it fails.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let parsed = super::files::read(&session.origin)?;
    let found = all(parsed.statements());
    let (sources, color) = (&parsed.sources, session.screen.is_terminal);
    if session.json() {
        let list = found.iter().map(|(rule, found)| value(rule, found, sources));
        session.screen.json(&list.collect())?;
    } else {
        for (rule, found) in &found {
            // Colours are the only controls; the excerpt is the administrator's own file.
            print!("{}", found.render(sources, color));
            session.screen.line(&format!("  rule: {rule}"))?;
        }
    }
    match found.len() {
        0 => Ok(()),
        _ => Err(Failure::Other(String::new())),
    }
}

fn value(rule: &str, found: &Diagnostic, sources: &SourceMap) -> Value {
    let span = found.span.unwrap_or(tidegate_conf::Span::NONE);
    let (line, column) = sources.line_column(span);
    let file = sources.file(span.file).map_or("", |file| file.name());
    json!({ "rule": rule, "message": found.message, "file": file, "line": line, "column": column })
}

/// Applies all rules to all statements.
fn all(statements: &[Statement]) -> Vec<(&'static str, Diagnostic)> {
    fn visit<'a>(
        statements: &'a [Statement],
        around: &mut Vec<&'a Statement>,
        found: &mut Vec<(&'static str, Diagnostic)>,
    ) {
        for statement in statements {
            for (name, rule) in RULES {
                if let Some((message, help)) = rule(statement, around) {
                    let last = statement.args.last().unwrap_or(&statement.name).span;
                    let span = statement.name.span.to(last);
                    found.push((name, Diagnostic::warn(message).at(span).help(help)));
                }
            }
            around.push(statement);
            visit(statement.children(), around, found);
            around.pop();
        }
    }
    let mut found = Vec::new();
    visit(statements, &mut Vec::new(), &mut found);
    found
}

fn is(statement: &Statement, name: &str) -> bool {
    statement.name.bytes == name.as_bytes()
}

fn arg(statement: &Statement, index: usize) -> &[u8] {
    statement.args.get(index).map_or(b"", |word| &word.bytes)
}

/// Whether a word has a variable, as `$name` or `${name}`.
fn has_variable(word: &Word, name: &str) -> bool {
    let text = String::from_utf8_lossy(&word.bytes);
    let mut parts = text.split('$').skip(1);
    parts.any(|part| {
        let part = part.strip_prefix('{').unwrap_or(part);
        let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let found = &part[..end.unwrap_or(part.len())];
        // A name that ends with `_` is one of a family.
        if name.ends_with('_') { found.starts_with(name) } else { found == name }
    })
}

/// A request for `/files../secret` reaches the directory above an alias.
fn alias_traversal(statement: &Statement, around: &[&Statement]) -> Finding {
    let location = around.last().filter(|block| is(block, "location"))?;
    let prefix = match &location.args[..] {
        [prefix] => prefix,
        [modifier, prefix] if modifier.bytes == b"^~" => prefix,
        _ => return None,
    };
    let open = !prefix.bytes.ends_with(b"/") && arg(statement, 0).ends_with(b"/");
    (is(statement, "alias") && open && !prefix.bytes.starts_with(b"@")).then(|| {
        let prefix = prefix.display();
        (
            format!("a request for \"{prefix}../\" reaches the directory above this alias"),
            "end the location's prefix with a slash as well",
        )
    })
}

/// `$uri` is decoded: a client puts line ends into what is made of it.
fn header_splitting(statement: &Statement, _: &[&Statement]) -> Finding {
    let words = match &statement.name.bytes[..] {
        b"return" if arg(statement, 0).starts_with(b"3") => &statement.args[1..],
        b"add_header" | b"proxy_set_header" => statement.args.get(1..)?,
        b"rewrite" if arg(statement, 1).starts_with(b"http") => statement.args.get(1..2)?,
        _ => return None,
    };
    let decoded = ["uri", "document_uri"];
    let found = words.iter().any(|word| decoded.iter().any(|name| has_variable(word, name)));
    found.then(|| {
        (
            format!("\"{}\" with a decoded path", statement.name.display()),
            "$uri has the path as it was decoded, line ends included: write $request_uri",
        )
    })
}

/// The client chooses the host that the server connects to.
fn request_forgery(statement: &Statement, _: &[&Statement]) -> Finding {
    if !is(statement, "proxy_pass") {
        return None;
    }
    let word = statement.args.first()?;
    let authority = word.bytes.splitn(4, |byte| *byte == b'/').nth(2)?;
    let authority = Word { bytes: authority.to_vec(), ..word.clone() };
    let given = ["host", "http_", "arg_", "cookie_"];
    let found = given.iter().find(|name| has_variable(&authority, name))?;
    let message = format!("the client chooses the origin of \"proxy_pass\", by ${found}");
    Some((message, "name the origin, or choose among known ones by `map`"))
}

/// `$http_host` is what the client has sent, even where the server was chosen by another name.
fn host_spoofing(statement: &Statement, _: &[&Statement]) -> Finding {
    let sets = is(statement, "proxy_set_header") && arg(statement, 0).eq_ignore_ascii_case(b"host");
    let found = sets && statement.args.get(1).is_some_and(|word| has_variable(word, "http_host"));
    found.then(|| {
        (
            "the origin gets a host that was not compared with \"server_name\"".to_owned(),
            "write $host: the name of the request line counts there, and it has no odd characters",
        )
    })
}

/// `add_header` of an outer block has no effect where an inner one has its own.
fn headers_lost(statement: &Statement, around: &[&Statement]) -> Finding {
    let own = |block: &Statement| block.children().iter().any(|child| is(child, "add_header"));
    let merges = |block: &Statement| {
        let mut children = block.children().iter();
        children.any(|child| is(child, "add_header_inherit") && arg(child, 0) == b"merge")
    };
    let is_inner = ["server", "location", "if"].iter().any(|name| is(statement, name));
    if !is_inner || !own(statement) || merges(statement) || around.iter().any(|block| merges(block))
    {
        return None;
    }
    let outer = around.iter().rev().find(|block| own(block))?;
    let message = format!(
        "the fields that \"add_header\" adds in \"{}\" are lost here",
        outer.name.display()
    );
    Some((message, "repeat them, or write `add_header_inherit merge;`"))
}

/// Without `deny` all others are allowed as well.
fn allow_without_deny(statement: &Statement, _: &[&Statement]) -> Finding {
    let has = |name| statement.children().iter().any(|child| is(child, name));
    let allows_some =
        statement.children().iter().any(|child| is(child, "allow") && arg(child, 0) != b"all");
    (allows_some && !has("deny")).then(|| {
        ("\"allow\" without \"deny\" allows everybody".to_owned(), "write `deny all;` behind it")
    })
}

fn old_protocol(statement: &Statement, _: &[&Statement]) -> Finding {
    let old = [&b"SSLv2"[..], b"SSLv3", b"TLSv1", b"TLSv1.1"];
    let word = statement.args.iter().find(|word| old.contains(&&word.bytes[..]));
    let word = word.filter(|_| statement.name.bytes.ends_with(b"ssl_protocols"))?;
    let message = format!("{} is broken (RFC 8996)", word.display());
    Some((message, "write `TLSv1.2 TLSv1.3`, or leave the directive out"))
}

/// `location ~ .php$` is also a location of `/xphp`.
fn unescaped_dot(statement: &Statement, _: &[&Statement]) -> Finding {
    let is_regex = matches!(arg(statement, 0), b"~" | b"~*");
    let pattern = arg(statement, 1);
    let found = is(statement, "location")
        && is_regex
        && matches!(pattern, [b'.', b'a'..=b'z' | b'A'..=b'Z' | b'(', ..]);
    found.then(|| ("the dot is any character".to_owned(), "write `\\.` for a dot"))
}
