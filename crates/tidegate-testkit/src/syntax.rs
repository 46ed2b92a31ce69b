//! The script of a case: statements, one a line; a line that begins with `|` continues the one
//! above.

use crate::World;
use crate::bell::Failure;
use crate::conditions::{Condition, condition};
use crate::failing::Failing;
use crate::ops::{self, ClientOp, OriginLine, Row};
use crate::relay::{RelayLine, relay_line};
use crate::texts::Texts;
use crate::words::{Cursor, Word, split};

/// Signals that a case may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Reload.
    Hup,
    /// Graceful stop.
    Quit,
    /// Fast stop.
    Term,
    /// As TERM.
    Int,
    /// Reopen logs.
    Usr1,
    /// Start a new binary.
    Usr2,
    /// Stop workers gracefully.
    Winch,
    /// End at once, as in a crash.
    Kill,
    /// Ignored by the server, as are the three that follow.
    Alarm,
    Io,
    Pipe,
    Sys,
}

/// The process that receives a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// The process named by the pid file.
    Master,
    /// Its first child.
    Worker,
    /// The process named by the pid file with `.oldbin`.
    Old,
}

/// A change of the case's directory. Names are relative to it.
#[derive(Debug, Clone)]
pub enum FileOp {
    /// `file write NAME "…"`
    Write(String, Vec<u8>),
    /// `file append NAME "…"`
    Append(String, Vec<u8>),
    /// `file delete NAME`: a file, or a directory with its content
    Delete(String),
    /// `file directory NAME`
    Directory(String),
    /// `file fifo NAME`: a named pipe
    Fifo(String),
    /// `file link NAME TARGET`
    Link(String, String),
    /// `file move NAME TO`
    Move(String, String),
    /// `file time NAME SECONDS`: modification time since 1970
    Time(String, u64),
    /// `file mode NAME OCTAL`
    Mode(String, u32),
    /// `file truncate NAME BYTES`: a file, or every file below a directory
    Truncate(String, u64),
    /// `file overwrite NAME OFFSET "…"`: a file, or every file below a directory
    Overwrite(String, u64, Vec<u8>),
}

/// One statement.
#[derive(Debug, Clone)]
pub enum Step {
    /// `origin NAME …`
    Origin(String, OriginLine),
    /// `client NAME… op | op`
    Client(Vec<String>, Vec<ClientOp>),
    /// a row
    Row(Row),
    /// `until ROW`: the row again and again until it holds
    Until(Row),
    /// `relay NAME …`
    Relay(String, RelayLine),
    /// `open GATE`
    Open(String),
    /// `signal NAME [worker|old]`
    Signal(Signal, Receiver),
    /// `reload [LABEL]`: writes that configuration, HUP, waits until it serves
    Reload(Option<String>),
    /// `rewrite config LABEL`
    Rewrite(String),
    /// `file …`
    File(FileOp),
    /// `check …`
    Check(Condition),
    /// `wait …`
    Wait(Condition),
    /// `command ARGUMENT…`: runs the binary on the case's configuration
    Command(Vec<String>),
    /// `start [failing OPERATION=ERROR[@FIRST[-END]]…]`
    Start(Vec<Failing>),
    /// `stop [quit|term]`: signal and wait for the exit
    Stop(Signal),
}

/// A statement with its place.
#[derive(Debug, Clone)]
pub struct Line {
    /// Line of the Markdown file.
    pub number: usize,
    /// As written.
    pub text: String,
    /// `on WORLD:` in front of it.
    pub only: Option<World>,
    /// The statement, parsed.
    pub step: Step,
}

/// A parsed script.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Statements in order.
    pub lines: Vec<Line>,
    /// `on SERVER: differs: reason`: some lines are for one server alone
    pub differs: Vec<(World, String)>,
    /// `on SERVER: skip: reason`: the case does not run there
    pub skips: Vec<(World, String)>,
    /// `allow log "text"`: alerts that are expected
    pub allowed: Vec<String>,
    /// `no start`: the script starts the server itself, or never
    pub no_start: bool,
}

/// Parses a script block whose first line is `first` in its file. Mistakes name their line.
pub(crate) fn parse(
    source: &str,
    first: usize,
    texts: &Texts,
) -> Result<Script, Vec<(usize, Failure)>> {
    let mut script = Script::default();
    let mut mistakes = Vec::new();
    for (number, text) in joined(source, first) {
        if let Err(mistake) = statement(&text, number, None, texts, &mut script) {
            mistakes.push((number, mistake));
        }
    }
    let partly = script.lines.iter().any(|line| line.only.is_some());
    if partly && script.differs.is_empty() {
        mistakes.push((first, Failure::new("`on SERVER:` needs an `on SERVER: differs: reason`")));
    }
    if !partly && !script.differs.is_empty() {
        let text = "`differs:` needs a line `on SERVER: …`; `skip:` leaves the whole case out";
        mistakes.push((first, Failure::new(text)));
    }
    if mistakes.is_empty() { Ok(script) } else { Err(mistakes) }
}

fn joined(source: &str, first: usize) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (offset, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match lines.last_mut() {
            Some((_, above)) if line.starts_with("| ") => {
                // The operations of an actor are divided by bars, the parts of other statements are not.
                let skip = if is_of_actor(above) { 0 } else { 2 };
                above.push(' ');
                above.push_str(&line[skip..]);
            }
            _ => lines.push((first + offset, line.to_owned())),
        }
    }
    lines
}

/// Whether a statement, perhaps after `on SERVER:`, is one of a client or an origin.
fn is_of_actor(statement: &str) -> bool {
    let rest = statement.strip_prefix("on ").and_then(|rest| rest.split_once(": "));
    let statement = rest.map_or(statement, |(_, rest)| rest);
    statement.starts_with("client ") || statement.starts_with("origin ")
}

fn statement(
    text: &str,
    number: usize,
    only: Option<World>,
    texts: &Texts,
    script: &mut Script,
) -> Result<(), Failure> {
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match verb {
        "on" if only.is_none() => {
            let (world, rest) =
                rest.split_once(':').ok_or_else(|| Failure::new("`on SERVER: …` needs a colon"))?;
            return on(world.trim().parse()?, rest.trim(), number, texts, script);
        }
        "differs" | "worlds" => return Err(Failure::new(SCOPE)),
        "no" if rest.trim() == "start" => script.no_start = true,
        "allow" => {
            let words = split(rest)?;
            let mut cursor = Cursor::new(&words);
            if !cursor.accept("log") {
                return Err(Failure::new("`allow` is followed by `log \"text\"`"));
            }
            script.allowed.push(cursor.string("a text")?);
            cursor.finish()?;
        }
        _ => {
            let step = step(verb, &split(&texts.filled_in(text)?)?)?;
            script.lines.push(Line { number, text: text.to_owned(), only, step });
        }
    }
    Ok(())
}

/// How the words of the first edition are written now.
const SCOPE: &str = "write `on SERVER: skip: reason` for a case that does not run on a server, \
                     `on SERVER: differs: reason` for one in which some lines are for one server";

/// What follows `on SERVER:`.
fn on(
    world: World,
    rest: &str,
    number: usize,
    texts: &Texts,
    script: &mut Script,
) -> Result<(), Failure> {
    let (list, reason) = if let Some(reason) = rest.strip_prefix("skip:") {
        (&mut script.skips, reason)
    } else if let Some(reason) = rest.strip_prefix("differs:") {
        (&mut script.differs, reason)
    } else if rest.is_empty() {
        return Err(Failure::new("a statement, `skip:` or `differs:` is missing"));
    } else {
        return statement(rest, number, Some(world), texts, script);
    };
    if reason.trim().is_empty() {
        return Err(Failure::new("a reason is missing"));
    }
    list.push((world, reason.trim().to_owned()));
    Ok(())
}

fn step(verb: &str, words: &[Word]) -> Result<Step, Failure> {
    if begins_row(verb) {
        return Ok(Step::Row(ops::row(words)?));
    }
    let mut cursor = Cursor::new(&words[1..]);
    let step = match verb {
        "until" => return Ok(Step::Until(ops::row(&words[1..])?)),
        "origin" => {
            let name = cursor.bare("an origin's name")?.to_owned();
            return Ok(Step::Origin(name, ops::origin_line(&words[2..])?));
        }
        "client" => return client(&words[1..]),
        "relay" => {
            let name = cursor.bare("a relay's name")?.to_owned();
            Step::Relay(name, relay_line(&mut cursor)?)
        }
        "open" => Step::Open(cursor.bare("a gate's name")?.to_owned()),
        "signal" => Step::Signal(signal(cursor.bare("a signal")?)?, receiver(&mut cursor)?),
        "reload" => {
            let label = cursor.peek().map(str::to_owned);
            cursor.word();
            Step::Reload(label)
        }
        "rewrite" if cursor.accept("config") => {
            Step::Rewrite(cursor.bare("a block's label")?.to_owned())
        }
        "file" => Step::File(file(&mut cursor)?),
        "check" => Step::Check(condition(&mut cursor)?),
        "wait" => Step::Wait(condition(&mut cursor)?),
        "command" => {
            let mut arguments = Vec::new();
            while cursor.peek_word().is_some() {
                arguments.push(cursor.string("an argument")?);
            }
            Step::Command(arguments)
        }
        "start" => Step::Start(failing(&mut cursor)?),
        "stop" => Step::Stop(match cursor.peek() {
            Some(name) => {
                cursor.word();
                signal(name)?
            }
            None => Signal::Quit,
        }),
        other => return Err(Failure::new(format!("unknown statement `{other}`"))),
    };
    cursor.finish()?;
    Ok(step)
}

fn failing(cursor: &mut Cursor<'_>) -> Result<Vec<Failing>, Failure> {
    let mut failing = Vec::new();
    if cursor.accept("failing") {
        failing.push(Failing::parse(cursor.bare("what fails")?)?);
        while let Some(word) = cursor.peek() {
            failing.push(Failing::parse(word)?);
            cursor.word();
        }
    }
    Ok(failing)
}

fn begins_row(verb: &str) -> bool {
    verb.starts_with('@') || matches!(verb, "raw" | "h2" | "h3") || ops::is_method(verb)
}

fn client(words: &[Word]) -> Result<Step, Failure> {
    let is_name = |word: &&Word| {
        matches!(word, Word::Bare(name) if name.len() >= 2 && name.starts_with('c')
            && name[1..].bytes().all(|byte| byte.is_ascii_digit()))
    };
    let count = words.iter().take_while(is_name).count();
    if count == 0 {
        return Err(Failure::new("a client's name is missing: c1, c2, …"));
    }
    let names = words[..count].iter().filter_map(|word| match word {
        Word::Bare(name) => Some(name.clone()),
        _ => None,
    });
    Ok(Step::Client(names.collect(), ops::piped(&words[count..], ops::client_op)?))
}

fn signal(name: &str) -> Result<Signal, Failure> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "hup" => Signal::Hup,
        "quit" => Signal::Quit,
        "term" => Signal::Term,
        "int" => Signal::Int,
        "usr1" => Signal::Usr1,
        "usr2" => Signal::Usr2,
        "winch" => Signal::Winch,
        "kill" => Signal::Kill,
        "alrm" => Signal::Alarm,
        "io" => Signal::Io,
        "pipe" => Signal::Pipe,
        "sys" => Signal::Sys,
        _ => return Err(Failure::new(format!("unknown signal `{name}`"))),
    })
}

pub(crate) fn receiver(cursor: &mut Cursor<'_>) -> Result<Receiver, Failure> {
    Ok(match cursor.word() {
        None => Receiver::Master,
        Some(Word::Bare(word)) if word == "master" => Receiver::Master,
        Some(Word::Bare(word)) if word == "worker" => Receiver::Worker,
        Some(Word::Bare(word)) if word == "old" => Receiver::Old,
        Some(_) => return Err(Failure::new("a process is master, worker or old")),
    })
}

fn file(cursor: &mut Cursor<'_>) -> Result<FileOp, Failure> {
    let verb = cursor.bare("what to do with the file")?;
    let name = cursor.string("a file's name")?;
    Ok(match verb {
        "write" => FileOp::Write(name, cursor.text("content")?),
        "append" => FileOp::Append(name, cursor.text("content")?),
        "delete" => FileOp::Delete(name),
        "directory" => FileOp::Directory(name),
        "fifo" => FileOp::Fifo(name),
        "link" => FileOp::Link(name, cursor.string("a target")?),
        "move" => FileOp::Move(name, cursor.string("a new name")?),
        "time" => FileOp::Time(name, cursor.number("seconds since 1970")?),
        "mode" => {
            let mode = u32::from_str_radix(cursor.bare("an octal mode")?, 8);
            FileOp::Mode(name, mode.map_err(|_| Failure::new("an octal mode is missing"))?)
        }
        "truncate" => FileOp::Truncate(name, cursor.number("a size")?),
        "overwrite" => {
            FileOp::Overwrite(name, cursor.number("an offset")?, cursor.text("content")?)
        }
        other => return Err(Failure::new(format!("a file cannot be `{other}`"))),
    })
}
