//! The command line's options, with nginx's names, abbreviations and errors.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg;

/// What a signal sent with `-s` asks the running master for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Stop,
    Quit,
    Reload,
    Reopen,
}

/// The command line, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// `-?` or `-h`.
    pub help: bool,
    /// `-v`.
    pub version: bool,
    /// `-V`: version with the list of what is built in.
    pub configure: bool,
    /// `-t`, also set by `-T`.
    pub test: bool,
    /// `-T`.
    pub dump: bool,
    /// `-q`.
    pub quiet: bool,
    /// `-s`.
    pub order: Option<Order>,
    /// `-p`.
    pub prefix: Option<String>,
    /// `-c`.
    pub file: Option<PathBuf>,
    /// `-e`.
    pub error_log: Option<String>,
    /// `-g`.
    pub directives: Option<String>,
    /// `tune`.
    pub tune: bool,
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// nginx's line without its `nginx: `.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    loop {
        match parser.next() {
            Ok(None) => return Ok(options),
            Ok(Some(Arg::Short(letter))) => option(&mut options, letter, &mut parser)?,
            Ok(Some(Arg::Long(name))) => return Err(format!("invalid option: \"--{name}\"")),
            Ok(Some(Arg::Value(value))) if value == crate::tune::ARGUMENT => options.tune = true,
            Ok(Some(Arg::Value(value))) => {
                return Err(format!("invalid option: \"{}\"", value.to_string_lossy()));
            }
            Err(error) => return Err(format!("invalid option: {error}")),
        }
    }
}

fn option(options: &mut Options, letter: char, parser: &mut lexopt::Parser) -> Result<(), String> {
    let mut value = |what: &str| {
        let value = parser.value().map_err(|_| format!("option \"-{letter}\" requires {what}"))?;
        if value.is_empty() {
            return Err(format!("option \"-{letter}\" requires {what}"));
        }
        value.into_string().map_err(|_| format!("option \"-{letter}\" requires UTF-8 text"))
    };
    match letter {
        '?' | 'h' => {
            options.help = true;
            options.version = true;
        }
        'v' => options.version = true,
        'V' => {
            options.version = true;
            options.configure = true;
        }
        't' => options.test = true,
        'T' => {
            options.test = true;
            options.dump = true;
        }
        'q' => options.quiet = true,
        's' => options.order = Some(order(&value("parameter")?)?),
        'p' => options.prefix = Some(value("directory name")?),
        'c' => options.file = Some(value("file name")?.into()),
        'e' => {
            let target = value("file name")?;
            options.error_log = Some(target);
        }
        'g' => options.directives = Some(value("parameter")?),
        _ => return Err(format!("invalid option: \"{letter}\"")),
    }
    Ok(())
}

fn order(name: &str) -> Result<Order, String> {
    match name {
        "stop" => Ok(Order::Stop),
        "quit" => Ok(Order::Quit),
        "reload" => Ok(Order::Reload),
        "reopen" => Ok(Order::Reopen),
        _ => Err(format!("invalid option: \"-s {name}\"")),
    }
}

#[cfg(test)]
mod tests;
