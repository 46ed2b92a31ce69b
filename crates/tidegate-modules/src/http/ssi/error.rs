//! Why a command cannot be run: in nginx's words where it has the same error.

use std::fmt;

use super::render::{BRANCHES_MAX, EXPANDED_BYTES_MAX, KEPT_BYTES_MAX};

/// A command that cannot be run; the page gets the text of `errmsg` in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandError {
    Unknown {
        command: String,
    },
    ParameterUnknown {
        parameter: String,
        command: String,
    },
    ParameterTwice {
        parameter: String,
        command: String,
    },
    ParameterMissing {
        parameter: &'static str,
        command: String,
    },
    /// A command that needs another one before it.
    Context {
        command: String,
    },
    /// More nested conditions than [`BRANCHES_MAX`].
    TooDeep,
    BlockTooLong {
        name: String,
    },
    /// `virtual` and `file` of an include.
    TwoTargets {
        target: String,
        file: String,
    },
    NoTarget,
    /// A value of `wait` that is neither `yes` nor `no`.
    Wait {
        value: String,
    },
    /// There is no block of this name.
    Stub {
        name: String,
    },
    UnsafeUri {
        uri: String,
    },
    Expression {
        text: String,
    },
    /// A regular expression that does not compile, with the message of the library.
    Regex(String),
    BacktrackingLimit {
        regex: String,
    },
    /// A text with its variables expanded is longer than [`EXPANDED_BYTES_MAX`].
    TooLong {
        text: String,
    },
    VariableName {
        text: String,
    },
    NoRoom(NoRoom),
}

/// A variable or block that would exceed [`KEPT_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub name: String,
}

impl From<NoRoom> for CommandError {
    fn from(error: NoRoom) -> CommandError {
        CommandError::NoRoom(error)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { command } => write!(f, "invalid SSI command: \"{command}\""),
            Self::ParameterUnknown { parameter, command } => {
                write!(f, "invalid parameter name: \"{parameter}\" in \"{command}\" SSI command")
            }
            Self::ParameterTwice { parameter, command } => {
                write!(f, "duplicate \"{parameter}\" parameter in \"{command}\" SSI command")
            }
            Self::ParameterMissing { parameter, command } => write!(
                f,
                "mandatory \"{parameter}\" parameter is absent in \"{command}\" SSI command"
            ),
            Self::Context { command } => {
                write!(f, "invalid context of SSI command: \"{command}\"")
            }
            Self::TooDeep => {
                write!(f, "more than {BRANCHES_MAX} SSI conditions within each other")
            }
            Self::BlockTooLong { name } => write!(f, "the \"{name}\" SSI block is too long"),
            Self::TwoTargets { target, file } => {
                write!(f, "inclusion may be either virtual=\"{target}\" or file=\"{file}\"")
            }
            Self::NoTarget => f.write_str("no parameter in \"include\" SSI command"),
            Self::Wait { value } => {
                write!(f, "invalid value \"{value}\" in the \"wait\" parameter")
            }
            Self::Stub { name } => {
                write!(f, "\"stub\"=\"{name}\" for \"include\" not found")
            }
            Self::UnsafeUri { uri } => write!(f, "unsafe URI \"{uri}\" was detected"),
            Self::Expression { text } => write!(f, "invalid expression in \"{text}\""),
            Self::Regex(reason) => f.write_str(reason),
            Self::BacktrackingLimit { regex } => {
                write!(f, "matching \"{regex}\" hit the backtracking limit")
            }
            Self::TooLong { text } => write!(
                f,
                "\"{text}\" gets longer than {EXPANDED_BYTES_MAX} bytes in an SSI command"
            ),
            Self::VariableName { text } => write!(f, "invalid variable name in \"{text}\""),
            Self::NoRoom(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(
            f,
            "\"{name}\" would make SSI variables and blocks larger than {KEPT_BYTES_MAX} bytes"
        )
    }
}

impl std::error::Error for NoRoom {}
