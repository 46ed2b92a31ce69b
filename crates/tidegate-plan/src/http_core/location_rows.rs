//! Directives of the location level.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, closest, once, row};
use tidegate_core::error_log::{LEVELS, Level};

use super::conf::{
    BodyInFile, Conf, ErrorLogConf, ErrorPageConf, RootConf, ServerTokens, TempPath,
};

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
        set: set_types,
    },
    row(
        "default_type",
        ALL,
        Arity::ONE,
        "text/plain",
        "Media type of files whose extension `types` does not name.",
        |conf, args| once(&mut conf.default_type, args.word(0).clone(), args),
    ),
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
        "client_max_body_size",
        ALL,
        Arity::ONE,
        "1m",
        "Largest request body; a request that exceeds it gets 413. 0 for no limit.",
        |conf, args| once(&mut conf.client_max_body_size, args.offset(0)?, args),
    ),
    row(
        "client_body_buffer_size",
        ALL,
        Arity::ONE,
        "16k",
        "Bytes of a request body kept in memory; a longer body is written to a file.",
        |conf, args| once(&mut conf.client_body_buffer_size, args.size(0)?, args),
    ),
    row(
        "client_body_timeout",
        ALL,
        Arity::ONE,
        "60s",
        "Longest time between two reads of a request body; a request that exceeds it gets 408.",
        |conf, args| once(&mut conf.client_body_timeout, args.milliseconds(0)?, args),
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
        "client_body_in_file_only",
        ALL,
        Arity::ONE,
        "off",
        "Whether each request body is written to a file: `on` keeps the files, `clean` removes them.",
        |conf, args| {
            let choices =
                [("off", BodyInFile::Off), ("on", BodyInFile::On), ("clean", BodyInFile::Clean)];
            once(&mut conf.client_body_in_file_only, args.choice(0, &choices)?, args)
        },
    ),
    row(
        "client_body_in_single_buffer",
        ALL,
        Arity::FLAG,
        "off",
        "Whether a body is kept in one buffer; Tidegate always does this.",
        |conf, args| once(&mut conf.client_body_in_single_buffer, args.flag(0)?, args),
    ),
    row(
        "satisfy",
        ALL,
        Arity::ONE,
        "all",
        "Whether all or any of the access modules must allow.",
        |conf, args| {
            let choice = args.choice(0, &[("all", false), ("any", true)])?;
            once(&mut conf.satisfy_any, choice, args)
        },
    ),
    row(
        "auth_delay",
        ALL,
        Arity::ONE,
        "0s",
        "Delay of responses with status 401, against attacks that measure time or guess passwords.",
        |conf, args| once(&mut conf.auth_delay, args.milliseconds(0)?, args),
    ),
    row(
        "recursive_error_pages",
        ALL,
        Arity::FLAG,
        "off",
        "Whether an error page's own error may have an error page.",
        |conf, args| once(&mut conf.recursive_error_pages, args.flag(0)?, args),
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
        "File, `stderr` or `syslog:…` for errors, and the least level that is written.",
        set_error_log,
    ),
    row(
        "log_not_found",
        ALL,
        Arity::FLAG,
        "on",
        "Whether missing files are logged.",
        |conf, args| once(&mut conf.log_not_found, args.flag(0)?, args),
    ),
    row(
        "log_subrequest",
        ALL,
        Arity::FLAG,
        "off",
        "Whether subrequests are written to the access log.",
        |conf, args| once(&mut conf.log_subrequest, args.flag(0)?, args),
    ),
    row(
        "subrequest_output_buffer_size",
        ALL,
        Arity::ONE,
        "4k",
        "Largest response of a subrequest that is kept in memory (SSI's `set`), in bytes.",
        |conf, args| once(&mut conf.subrequest_output_buffer_size, args.size(0)?, args),
    ),
    row(
        "absolute_redirect",
        ALL,
        Arity::FLAG,
        "on",
        "Whether redirects made by the server name scheme and host.",
        |conf, args| once(&mut conf.absolute_redirect, args.flag(0)?, args),
    ),
    row(
        "server_name_in_redirect",
        ALL,
        Arity::FLAG,
        "off",
        "Use the first server name in redirects instead of the request's host.",
        |conf, args| once(&mut conf.server_name_in_redirect, args.flag(0)?, args),
    ),
    row(
        "port_in_redirect",
        ALL,
        Arity::FLAG,
        "on",
        "Whether redirects name a port other than the scheme's own.",
        |conf, args| once(&mut conf.port_in_redirect, args.flag(0)?, args),
    ),
    row(
        "msie_padding",
        ALL,
        Arity::FLAG,
        "on",
        "Pad error pages for old Internet Explorers.",
        |conf, args| once(&mut conf.msie_padding, args.flag(0)?, args),
    ),
    row(
        "msie_refresh",
        ALL,
        Arity::FLAG,
        "off",
        "Refresh pages instead of redirects for Internet Explorer.",
        |conf, args| once(&mut conf.msie_refresh, args.flag(0)?, args),
    ),
    row(
        "resolver",
        ALL.union(Contexts::STREAM_AND_SERVER),
        Arity::AT_LEAST_ONE,
        "",
        "Name servers for names that are looked up while running.",
        |conf, args| once(&mut conf.resolver, args.words().to_vec(), args),
    ),
    row(
        "resolver_timeout",
        ALL.union(Contexts::STREAM_AND_SERVER),
        Arity::ONE,
        "30s",
        "Longest time for a name lookup.",
        |conf, args| once(&mut conf.resolver_timeout, args.milliseconds(0)?, args),
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
    let types = conf.types.get_or_insert_default();
    for statement in args.entries()? {
        types.extend(statement.args.iter().map(|word| (word.clone(), statement.name.clone())));
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

fn set_error_log(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut level = Level::Error;
    for index in 1..args.len() {
        let text = args.text(index)?;
        if index > 1 {
            return Err(args.error(index, format!("duplicate log level \"{text}\"")));
        }
        level = LEVELS.iter().find(|(name, _)| *name == text).map(|(_, level)| *level).ok_or_else(
            || {
                let error = args.error(index, format!("invalid log level \"{text}\""));
                match closest(text, LEVELS.iter().map(|(name, _)| *name)) {
                    Some(meant) => error.help(format!("did you mean `{meant}`?")),
                    None => error
                        .label("a level is `debug`, `info`, `notice`, `warn`, `error`, `crit`, …"),
                }
            },
        )?;
    }
    let target = args.text(0)?.to_owned();
    conf.error_logs.push(ErrorLogConf { target, level, span: args.word(0).span });
    Ok(())
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
