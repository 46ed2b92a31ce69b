//! Directives of the location level whose values need other parts of a plan.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, once, row};

use super::conf::{Conf, ErrorPageConf, RootConf, ServerTokens, TempPath};
use super::error_logs;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;
const ALL_IF: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;

pub(super) const ROWS: &[Directive<Conf>] = &[
    row(
        "root",
        ALL_IF,
        Arity::ONE,
        "html",
        "Directory that paths are looked up in.",
        |conf, args| set_root(conf, args, false),
    ),
    row(
        "alias",
        Contexts::LOCATION,
        Arity::ONE,
        "",
        "Path that replaces the location's name.",
        |conf, args| set_root(conf, args, true),
    ),
    row(
        "internal",
        Contexts::LOCATION,
        Arity::NONE,
        "",
        "Only internal redirects and subrequests may enter; others get 404.",
        |conf, args| once(&mut conf.internal, true, args),
    ),
    Directive {
        name: "types",
        contexts: ALL,
        args: Arity::NONE,
        kind: Kind::Block,
        default: "text/html html; image/gif gif; image/jpeg jpg;",
        doc: "Media types by file name extension.",
        has_effect: true,
        set: set_types,
    },
    row(
        "error_page",
        ALL_IF,
        Arity::AT_LEAST_TWO,
        "",
        "Path, named location or URL whose response is sent for the given statuses; `=code` changes the status.",
        set_error_page,
    ),
    row(
        "post_action",
        ALL_IF,
        Arity::ONE,
        "",
        "Path of a subrequest made after the end of the request; `off` for none.",
        |conf, args| once(&mut conf.post_action, args.word(0).clone(), args),
    ),
    row(
        "client_body_temp_path",
        ALL,
        Arity::ONE_TO_FOUR,
        "client_body_temp",
        "Directory for request bodies in files, with up to three levels of subdirectories.",
        |conf, args| once(&mut conf.client_body_temp_path, temp_path(args)?, args),
    ),
    row(
        "limit_rate",
        ALL_IF,
        Arity::ONE,
        "0",
        "Bytes a second to a client for one request; 0 for no limit.",
        |conf, args| once(&mut conf.limit_rate, args.word(0).clone(), args),
    ),
    row(
        "limit_rate_after",
        ALL_IF,
        Arity::ONE,
        "0",
        "Bytes sent at full speed before limit_rate applies.",
        |conf, args| once(&mut conf.limit_rate_after, args.word(0).clone(), args),
    ),
    row(
        "server_tokens",
        ALL,
        Arity::ONE,
        "on",
        "Version in the `Server` field and error pages: on, off, build, or a text; empty for none.",
        |conf, args| {
            let tokens = match args.bytes(0) {
                b"off" => ServerTokens::Off,
                b"on" => ServerTokens::On,
                b"build" => ServerTokens::Build,
                _ => ServerTokens::Text(args.word(0).clone()),
            };
            once(&mut conf.server_tokens, tokens, args)
        },
    ),
    row(
        "error_log",
        Contexts::MAIN.union(ALL).union(Contexts::STREAM_AND_SERVER),
        Arity::AT_LEAST_ONE,
        "logs/error.log error",
        "File, `stderr` or `syslog:…` for errors, and the least level that is written: `debug`, `info`, `notice`, `warn`, \
         `error`, `crit`, `alert` or `emerg`. With `json` each line is a JSON object as in nginx Plus: `level`, `timestamp`, `pid`, \
         `tid`, `cnum` (the connection), `msg`, of a request `action`, `client`, `server`, `request`, `subrequest`, `upstream`, \
         `host` and `referrer`, of a session its client with the port, `protocol` and counts of bytes, then the values of `error_log_tag`, `tags`, and \
         `errno` and `errtext` of the system's error. With `format=json` it is one as in Angie: `time`, `level`, `pid`, `tid`, \
         `connection`, `message`, `error`, an object `http` or `stream`, and `tags`. A line has at most 2 KB: the longest \
         values are cut, and `truncated` says so. `filter=FIELD:TEXT` writes only lines whose field contains the text, \
         `FIELD:=TEXT` whose field is the text, `FIELD:~REGEX` whose field matches the regular expression; of several filters all must hold. \
         Fields are `logline` (message and context), `message`, `tag` (any of `http` or `stream`, `upstream` and `peer` in a line about \
         an origin, and those of `error_log_user_tag`), `action`, `client`, `server`, `protocol`, `request` (or `request_line`), \
         `subrequest`, `upstream`, `host` and `referrer`. `memory:`, `rate=` and filters by `sourcefile` are refused.",
        error_logs::set,
    ),
    row(
        "error_log_tag",
        ALL,
        Arity::TWO,
        "",
        "Name and value that error log lines of the location have in addition, in lines of text behind the others. The value may have \
         variables; they are evaluated when the location is chosen, and an empty value is left out. Inherited only where \
         a block has none.",
        error_logs::set_tag,
    ),
    row(
        "error_log_user_tag",
        ALL.union(Contexts::STREAM_AND_SERVER),
        Arity::ONE,
        "",
        "Word that error log lines of the location have among the `tags` of lines of JSON and for `filter=tag:` of \
         `error_log`. It may have variables; they are evaluated when the location or the stream server is chosen, and an empty word is left \
         out. Inherited only where a block has none.",
        |conf, args| {
            conf.error_log_words.push(args.word(0).clone());
            Ok(())
        },
    ),
    row(
        "resolver",
        ALL.union(Contexts::STREAM_AND_SERVER),
        Arity::AT_LEAST_ONE,
        "",
        "Name servers for names that are looked up while running. `status_zone=` counts the questions \
         for `api`.",
        |conf, args| once(&mut conf.resolver, args.words().to_vec(), args),
    ),
];

fn set_root(conf: &mut Conf, args: &Args<'_>, alias: bool) -> Result<(), Diagnostic> {
    if let Some(root) = &conf.root {
        let name = args.name();
        return Err(if root.alias == alias {
            args.duplicate()
        } else {
            let other = if root.alias { "alias" } else { "root" };
            args.error_here(format!(
                "\"{name}\" directive is duplicate, \"{other}\" directive was specified earlier"
            ))
        });
    }
    conf.root =
        Some(RootConf { text: args.word(0).clone(), alias, alias_length: 0, alias_regex: false });
    Ok(())
}

fn set_types(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    // Nothing is inherited yet, so that the table is this block's own and is not copied.
    let types = Arc::make_mut(conf.types.get_or_insert_default());
    for statement in args.entries()? {
        let kind = Bytes::copy_from_slice(&statement.name.bytes);
        let extensions = statement.args.iter().map(|word| word.bytes.to_ascii_lowercase());
        types.extend(extensions.map(|extension| (extension, kind.clone())));
    }
    Ok(())
}

fn set_error_page(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let last = args.len() - 1;
    let overwrite = match args.bytes(last - 1).strip_prefix(b"=") {
        None => None,
        Some(b"") => Some(0),
        Some(code) => Some(code_of(code).ok_or_else(|| args.invalid_value(last - 1))?),
    };
    let codes_end = if overwrite.is_some() { last - 1 } else { last };
    if codes_end == 0 {
        return Err(args.invalid_value(last - 1));
    }
    let mut codes = Vec::new();
    for index in 0..codes_end {
        let code = code_of(args.bytes(index)).ok_or_else(|| args.invalid_value(index))?;
        if code == 499 {
            return Err(args
                .invalid_value(index)
                .help("the client has closed the connection and receives no page"));
        }
        if !(300..=599).contains(&code) {
            let message = format!("value \"{code}\" must be between 300 and 599");
            return Err(args.error(index, message));
        }
        codes.push(code);
    }
    conf.error_pages.push(ErrorPageConf { codes, overwrite, target: args.word(last).clone() });
    Ok(())
}

fn code_of(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Most digits of all levels: directories of temporary files are named by the file's number, which has ten digits.
const LEVEL_DIGITS_MAX: u64 = 10;

/// Parses the arguments of a `*_temp_path` directive.
///
/// # Errors
/// For invalid levels.
pub fn temp_path(args: &Args<'_>) -> Result<TempPath, Diagnostic> {
    let mut levels = Vec::new();
    for index in 1..args.len() {
        levels.push(args.number(index, 1..=LEVEL_DIGITS_MAX)? as usize);
    }
    if levels.iter().sum::<usize>() > LEVEL_DIGITS_MAX as usize {
        return Err(args
            .invalid(args.len() - 1)
            .label("all levels together have ten digits at most"));
    }
    Ok(TempPath { path: args.text(0)?.to_owned(), levels })
}
