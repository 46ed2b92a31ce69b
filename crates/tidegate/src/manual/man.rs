//! Manual pages for `man`: `tidegate(8)`, the command line, and `tidegate.conf(5)`, all directives and variables.

use std::fmt::Write as _;

use super::entry::{DirectiveOrigin, Entry};
use super::variables::VariableEntry;
use crate::version;

/// Returns both pages, each after a line with its file's name.
pub(super) fn all(entries: &[Entry], variables: &[VariableEntry], file: &str) -> String {
    let mut text = format!("{file}tidegate.8\n");
    text.push_str(&command());
    let _ = writeln!(text, "{file}tidegate.conf.5");
    text.push_str(&configuration(entries, variables));
    text
}

fn head(name: &str, section: u8, purpose: &str) -> String {
    let version = version::TIDEGATE;
    let title = name.to_uppercase();
    format!(".TH {title} {section} \"\" \"Tidegate {version}\"\n.SH NAME\n{name} \\- {purpose}\n")
}

fn command() -> String {
    let mut text = head("tidegate", 8, "web server, reverse proxy and streaming cache");
    let (synopsis, options) = version::usage();
    text.push_str(".SH SYNOPSIS\n.nf\n");
    for line in synopsis {
        let _ = writeln!(text, "{}", plain(&line));
    }
    text.push_str(
        ".fi\n.SH DESCRIPTION\nTidegate runs the configuration of nginx as it is. Signals and options are \
         nginx's.\n.SH OPTIONS\n",
    );
    for (option, meaning) in options {
        let _ = writeln!(text, ".TP\n.B {}\n{}", plain(&option), plain(&meaning));
    }
    text.push_str(
        ".SH SIGNALS\n.TP\n.B TERM, INT\nfast shutdown\n.TP\n.B QUIT\ngraceful shutdown: ends when the requests in progress are done\n\
         .TP\n.B HUP\nreload the configuration\n.TP\n.B USR1\nreopen the logs\n.TP\n.B USR2\nstart another \
         program of this name, which takes the sockets over\n.TP\n.B WINCH\nend the worker when its requests are \
         done\n.SH SEE ALSO\n.BR tidegate.conf (5)\n",
    );
    text
}

fn configuration(entries: &[Entry], variables: &[VariableEntry]) -> String {
    let mut text = head("tidegate.conf", 5, "directives and variables of Tidegate");
    text.push_str(".SH DIRECTIVES\n");
    for entry in entries {
        let row = &entry.row;
        let _ = writeln!(text, ".TP\n.B {}\n{}", plain(row.name), plain(row.doc));
        let of = match entry.origin {
            DirectiveOrigin::Nginx(_) => "",
            _ => entry.provenance(),
        };
        let default = entry.default();
        let contexts = row.contexts.describe();
        let effect = entry.effect();
        let facts = format!("{effect} Contexts: {contexts}. Default: {default}. {of}");
        let _ = writeln!(text, ".br\n{}", plain(facts.trim()));
    }
    text.push_str(".SH VARIABLES\n");
    for entry in variables {
        let _ = writeln!(text, ".TP\n.B {}\n{}", plain(&entry.name), plain(entry.doc));
    }
    text.push_str(".SH SEE ALSO\n.BR tidegate (8)\n");
    text
}

/// Escapes text so that roff prints it literally.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
