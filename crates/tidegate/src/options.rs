//! The command line's options, with nginx's names, abbreviations and errors.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use lexopt::Arg;

use crate::control::{self, Command};

/// The signal to the running master that `-s` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalCommand {
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
    /// `-V`: version and build arguments.
    pub configure: bool,
    /// `-t`, also set by `-T`.
    pub test: bool,
    /// `-T`.
    pub dump: bool,
    /// `-q`.
    pub quiet: bool,
    /// `-s`.
    pub signal: Option<SignalCommand>,
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
    /// A subcommand of [`crate::control`], with what follows it.
    pub control: Option<(&'static Command, Vec<OsString>)>,
}

impl Options {
    /// Whether the program is to serve, and not to print, to check or to send something.
    pub(crate) fn serves(&self) -> bool {
        !(self.version || self.test || self.tune || self.control.is_some() || self.signal.is_some())
    }
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// An unknown option, or one without its value.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, OptionError> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    loop {
        match parser.next() {
            Ok(None) => return Ok(options),
            Ok(Some(Arg::Short(letter))) => option(&mut options, letter, &mut parser)?,
            Ok(Some(Arg::Long(name))) => return Err(OptionError::Unknown(format!("--{name}"))),
            Ok(Some(Arg::Value(value))) if value == crate::tune::ARGUMENT => options.tune = true,
            Ok(Some(Arg::Value(value))) => {
                if let Some(command) = control::command(&value) {
                    // Words that follow are its own.
                    let rest = parser.raw_args().map_err(OptionError::Parser)?.collect();
                    options.control = Some((command, rest));
                    return Ok(options);
                }
                return Err(OptionError::Unknown(value.to_string_lossy().into_owned()));
            }
            Err(error) => return Err(OptionError::Parser(error)),
        }
    }
}

/// A mistake on the command line; as a text it is nginx's line without its `nginx: `.
#[derive(Debug)]
pub(crate) enum OptionError {
    /// An unknown option, as it was written, or a value that the option does not take.
    Unknown(String),
    /// An error of the argument parser.
    Parser(lexopt::Error),
    /// An option without its value: the description of that value.
    Value { letter: char, what: &'static str },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Unknown(text) => write!(f, "invalid option: \"{text}\""),
            OptionError::Parser(error) => write!(f, "invalid option: {error}"),
            OptionError::Value { letter, what } => {
                write!(f, "option \"-{letter}\" requires {what}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

/// Applies the option `letter`, with its value where it has one.
fn option(
    options: &mut Options,
    letter: char,
    parser: &mut lexopt::Parser,
) -> Result<(), OptionError> {
    let mut value = |what: &'static str| {
        let value = parser.value().ok().filter(|value| !value.is_empty());
        let value = value.ok_or(OptionError::Value { letter, what })?;
        let what = "UTF-8 text";
        value.into_string().map_err(|_| OptionError::Value { letter, what })
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
        's' => options.signal = Some(signal_command(&value("parameter")?)?),
        'p' => options.prefix = Some(value("directory name")?),
        'c' => options.file = Some(value("file name")?.into()),
        'e' => {
            let target = value("file name")?;
            options.error_log = Some(target);
        }
        'g' => options.directives = Some(value("parameter")?),
        _ => return Err(OptionError::Unknown(letter.to_string())),
    }
    Ok(())
}

fn signal_command(name: &str) -> Result<SignalCommand, OptionError> {
    match name {
        "stop" => Ok(SignalCommand::Stop),
        "quit" => Ok(SignalCommand::Quit),
        "reload" => Ok(SignalCommand::Reload),
        "reopen" => Ok(SignalCommand::Reopen),
        _ => Err(OptionError::Unknown(format!("-s {name}"))),
    }
}

#[cfg(test)]
mod tests;
