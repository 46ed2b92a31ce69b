//! The parameters of `error_log`, and of `error_log_tag`.

use tidegate_conf::{Args, Diagnostic, closest};
use tidegate_core::error_log::{FIELD_NAMES, FilterError, LEVELS, Level, LineForm, LogFilter};

use super::conf::{Conf, ErrorLogConf};

/// Reads `error_log`.
///
/// # Errors
/// For an unknown parameter, a second level or form, and an invalid filter.
pub(super) fn set(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (mut level, mut form, mut filters) = (None, None, Vec::new());
    for index in 1..args.len() {
        let text = args.text(index)?;
        let is_second = match text.split_once('=') {
            Some(("filter", filter)) => {
                filters.push(
                    LogFilter::parse(filter).map_err(|error| filter_error(args, index, &error))?,
                );
                false
            }
            Some(("format", name)) => form.replace(form_of(args, index, name)?).is_some(),
            Some(("rate", _)) => {
                let error = args.error(index, "\"rate\" of \"error_log\" is not supported yet");
                return Err(
                    error.help("a level that is more severe, or `filter=`, writes fewer lines")
                );
            }
            None if text == "json" => form.replace(LineForm::Json).is_some(),
            _ if level.is_some() => {
                return Err(args.error(index, format!("duplicate log level \"{text}\"")));
            }
            _ => level.replace(level_of(args, index, text)?).is_some(),
        };
        if is_second {
            return Err(args.error(index, "duplicate form of lines in \"error_log\""));
        }
    }
    let (level, form) = (level.unwrap_or(Level::Error), form.unwrap_or_default());
    let (target, span) = (args.text(0)?.to_owned(), args.word(0).span);
    conf.error_logs.push(ErrorLogConf { target, level, form, filters: filters.into(), span });
    Ok(())
}

fn form_of(args: &Args<'_>, index: usize, name: &str) -> Result<LineForm, Diagnostic> {
    match name {
        "json" => Ok(LineForm::NestedJson),
        "text" => Ok(LineForm::Text),
        _ => Err(args
            .error(index, format!("invalid format \"{name}\" of \"error_log\""))
            .label("a format is `text` or `json`")),
    }
}

fn level_of(args: &Args<'_>, index: usize, text: &str) -> Result<Level, Diagnostic> {
    let known = LEVELS.iter().find(|(name, _)| *name == text).map(|(_, level)| *level);
    known.ok_or_else(|| {
        let error = args.error(index, format!("invalid log level \"{text}\""));
        match closest(text, LEVELS.iter().map(|(name, _)| *name)) {
            Some(meant) => error.help(format!("did you mean `{meant}`?")),
            None => error.label(
                "a level is `debug`, `info`, `notice`, `warn`, `error`, `crit`, … (or `json`, the form of lines)",
            ),
        }
    })
}

fn filter_error(args: &Args<'_>, index: usize, error: &FilterError) -> Diagnostic {
    let diagnostic = args.error(index, error.to_string());
    match error {
        FilterError::Form => {
            diagnostic.label("a filter is `filter=FIELD:TEXT`, `FIELD:=TEXT` or `FIELD:~REGEX`")
        }
        FilterError::Field(_, Some(meant)) => diagnostic.help(format!("did you mean `{meant}`?")),
        FilterError::Field(_, None) => diagnostic
            .label("a field is `logline`, `message`, `tag`, `client`, `server`, `request`, …"),
        FilterError::SourceFile => diagnostic.help("filter by `logline` or by `tag`"),
        FilterError::Regex(_) => diagnostic,
    }
}

/// Reads `error_log_tag`.
///
/// # Errors
/// For a name that cannot be a member of an object, or is one already.
pub(super) fn set_tag(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.text(0)?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || !name.bytes().all(is_name) {
        let error = args.error(0, format!("invalid name \"{name}\" of \"error_log_tag\""));
        return Err(error.label("a name has letters, digits, `_`, `-` and `.`"));
    }
    if OWN_NAMES.contains(&name) || FIELD_NAMES.contains(&name) {
        return Err(args.error(0, format!("error log lines have a value \"{name}\" already")));
    }
    if conf.error_log_pairs.iter().any(|(known, _)| **known == *name) {
        return Err(args.error(0, format!("duplicate \"error_log_tag\" \"{name}\"")));
    }
    conf.error_log_pairs.push((name.into(), args.word(1).clone()));
    Ok(())
}

/// Members that lines of JSON have besides [`FIELD_NAMES`], in both forms.
const OWN_NAMES: &[&str] = &[
    "level",
    "timestamp",
    "time",
    "pid",
    "tid",
    "cnum",
    "connection",
    "msg",
    "message",
    "error",
    "errno",
    "errtext",
    "http",
    "stream",
    "tags",
    "truncated",
    "bytes_from_client",
    "bytes_to_client",
    "bytes_from_upstream",
    "bytes_to_upstream",
];
