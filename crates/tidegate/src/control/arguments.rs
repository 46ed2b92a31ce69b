//! The words and options behind a subcommand.

use std::ffi::OsString;

use lexopt::Arg;

use super::Command;
use super::failure::Failure;
use crate::options::Options;

/// An option of a subcommand.
pub(super) struct Opt {
    pub name: &'static str,
    short: Option<char>,
    /// What its value is called; `None` without one.
    value: Option<&'static str>,
    pub what: &'static str,
}

impl Opt {
    pub(super) const fn flag(name: &'static str, what: &'static str) -> Opt {
        Opt { name, short: None, value: None, what }
    }

    pub(super) const fn value(name: &'static str, value: &'static str, what: &'static str) -> Opt {
        Opt { name, short: None, value: Some(value), what }
    }

    pub(super) const fn short(self, letter: char) -> Opt {
        Opt { short: Some(letter), ..self }
    }

    /// Returns it as a manual writes it: `-q, --query EXPR`.
    pub(super) fn written(&self) -> String {
        let short = self.short.map(|letter| format!("-{letter}, ")).unwrap_or_default();
        let value = self.value.map(|value| format!(" {value}")).unwrap_or_default();
        format!("{short}--{}{value}", self.name)
    }
}

/// Options of all subcommands.
pub(super) const COMMON: &[Opt] = &[
    Opt::flag("json", "print JSON"),
    Opt::value(
        "socket",
        "PATH",
        "the server's `admin_socket`, in place of that of the configuration",
    ),
    Opt::value("url", "ADDRESS", "`http://host:port/path` of a location with `api`"),
    Opt::value("conf", "FILE", "the configuration's file").short('c'),
    Opt::value("conf-prefix", "PATH", "the prefix of relative paths").short('p'),
    Opt::value("global", "DIRECTIVES", "directives out of the file").short('g'),
    Opt::flag("help", "this help").short('h'),
];

/// What a command line has given.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub words: Vec<String>,
    options: Vec<(&'static str, String)>,
}

impl Given {
    /// Parses what follows a subcommand; the options of the configuration go to `main`, as if they were in front.
    ///
    /// # Errors
    /// An option that the subcommand has not, or one without its value.
    pub(super) fn parse(
        command: &Command,
        words: Vec<OsString>,
        main: &mut Options,
    ) -> Result<Given, Failure> {
        let usage = |error: lexopt::Error| Failure::Usage(error.to_string());
        let mut given = Given::default();
        let mut parser = lexopt::Parser::from_args(words);
        while let Some(argument) = parser.next().map_err(usage)? {
            let known = match &argument {
                Arg::Value(word) => {
                    given.words.push(text(word.clone())?);
                    continue;
                }
                Arg::Long(name) => find(command, |option| option.name == *name),
                Arg::Short(letter) => find(command, |option| option.short == Some(*letter)),
            };
            let Some(option) = known else {
                return Err(Failure::Usage(argument.unexpected().to_string()));
            };
            let value = match option.value {
                None => String::new(),
                Some(_) => text(parser.value().map_err(usage)?)?,
            };
            match option.name {
                "conf" => main.file = Some(value.into()),
                "conf-prefix" => main.prefix = Some(value),
                "global" => main.directives = Some(value),
                name => given.options.push((name, value)),
            }
        }
        Ok(given)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns the value that was given last.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut given = self.options.iter().rev();
        given.find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the words as a slice to match.
    pub(super) fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// Allows no words.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn no_words(&self) -> Result<(), Failure> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Failure::Usage(format!("unexpected word \"{word}\""))),
        }
    }
}

fn find(command: &Command, is: impl Fn(&&Opt) -> bool) -> Option<&'static Opt> {
    command.options.iter().chain(COMMON).find(is)
}

fn text(word: OsString) -> Result<String, Failure> {
    let invalid = |word: OsString| {
        Failure::Usage(format!("\"{}\" is not UTF-8 text", word.to_string_lossy()))
    };
    word.into_string().map_err(invalid)
}
