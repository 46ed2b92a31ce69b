//! Conditions of a script, after `check` and `wait`: their sources and comparisons.

use crate::bell::Failure;
use crate::relay::{Direction, RelayCount};
use crate::syntax::{Receiver, receiver};
use crate::words::{Cursor, Matcher};

/// The text that a condition examines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// error.log
    Log,
    /// access.log
    Access,
    /// `file NAME`
    File(String),
    /// `output` of the last command
    Output,
    /// datagrams that syslog sink `s1` received
    Sink(String),
    /// `process master|worker|old`: its short name, a line end, its command line
    Process(Receiver),
    /// `state master|worker|old`: its attributes in the system
    State(Receiver),
}

/// A number that a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quantity {
    /// `o1.requests`
    Requests(String),
    /// `o1.connections`
    Connections(String),
    /// `n1.questions`
    Questions(String),
    /// `r1.up.packets`, `r1.down.bytes`, `r1.up.lost`
    Relayed(String, Direction, RelayCount),
    /// `exit` of the last command
    Exit,
    /// `server.exit`
    ServerExit,
    /// `files NAME`: files below a directory
    Files(String),
    /// `lines NAME`
    Lines(String),
    /// `size NAME`
    Size(String),
    /// `mode NAME`: octal permissions of a file or directory; `NAME/*`: of the first file below it
    Mode(String),
    /// `log.count "text"`
    LogCount(Vec<u8>),
}

/// The condition of `check`, which must hold at once, and of `wait`.
#[derive(Debug, Clone)]
pub enum Condition {
    /// `SOURCE contains "…"`, `SOURCE matches ~"…"`, `SOURCE is "…"`
    Holds(Source, Matcher),
    /// `SOURCE lacks "…"`
    Lacks(Source, Matcher),
    /// `file NAME exists`
    Exists(String),
    /// `file NAME absent`
    Absent(String),
    /// `QUANTITY == N`
    Compare(Quantity, Comparison, i64),
}

impl Condition {
    /// Whether it examines what `ps` shows, which rings no bell when it changes.
    pub fn is_of_process(&self) -> bool {
        use Source::{Process, State};
        matches!(self, Condition::Holds(Process(_) | State(_), _) | Condition::Lacks(State(_), _))
    }
}

/// Between two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Whether it holds between what was found and a number.
    pub(crate) fn holds(self, found: i64, number: i64) -> bool {
        match self {
            Self::Equal => found == number,
            Self::Unequal => found != number,
            Self::AtMost => found <= number,
            Self::AtLeast => found >= number,
        }
    }
}

/// Reads a condition.
pub(crate) fn condition(cursor: &mut Cursor<'_>) -> Result<Condition, Failure> {
    let subject = cursor.bare("a condition")?;
    let source = match subject {
        "log" => Source::Log,
        "access" => Source::Access,
        "output" => Source::Output,
        "process" => Source::Process(receiver(cursor)?),
        "state" => Source::State(receiver(cursor)?),
        "file" => {
            let name = cursor.string("a file's name")?;
            if cursor.accept("exists") {
                return Ok(Condition::Exists(name));
            }
            if cursor.accept("absent") {
                return Ok(Condition::Absent(name));
            }
            Source::File(name)
        }
        "log.count" => {
            let text = cursor.text("a text")?;
            return compare(cursor, Quantity::LogCount(text));
        }
        "exit" => return compare(cursor, Quantity::Exit),
        "server.exit" => return compare(cursor, Quantity::ServerExit),
        "files" | "lines" | "mode" | "size" => {
            let name = cursor.string("a name")?;
            let quantity = match subject {
                "files" => Quantity::Files(name),
                "lines" => Quantity::Lines(name),
                "mode" => Quantity::Mode(name),
                _ => Quantity::Size(name),
            };
            return compare(cursor, quantity);
        }
        other => match other.split_once('.') {
            Some((origin, "requests")) => {
                return compare(cursor, Quantity::Requests(origin.to_owned()));
            }
            Some((origin, "connections")) => {
                return compare(cursor, Quantity::Connections(origin.to_owned()));
            }
            Some((server, "questions")) => {
                return compare(cursor, Quantity::Questions(server.to_owned()));
            }
            Some((relay, of)) if let Some((direction, count)) = relayed(of) => {
                return compare(cursor, Quantity::Relayed(relay.to_owned(), direction, count));
            }
            _ if is_sink(other) => Source::Sink(other.to_owned()),
            _ => return Err(Failure::new(format!("unknown condition `{other}`"))),
        },
    };
    let relation = match cursor.peek() {
        Some(word @ ("contains" | "lacks" | "is" | "matches")) => {
            cursor.word();
            word
        }
        _ => "contains",
    };
    let matcher = match (cursor.matcher("a text")?, relation) {
        (Matcher::Exact(text), "contains" | "lacks") => Matcher::Contains(text),
        (matcher, _) => matcher,
    };
    let made = if relation == "lacks" { Condition::Lacks } else { Condition::Holds };
    Ok(made(source, matcher))
}

/// Syslog sinks are named s1, s2, …
pub(crate) fn is_sink(name: &str) -> bool {
    name.strip_prefix('s').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn compare(cursor: &mut Cursor<'_>, quantity: Quantity) -> Result<Condition, Failure> {
    let comparison = comparison(cursor)?;
    Ok(Condition::Compare(quantity, comparison, cursor.number("a number")?))
}

/// `up.packets` and the like.
fn relayed(words: &str) -> Option<(Direction, RelayCount)> {
    let (direction, count) = words.split_once('.')?;
    let direction = match direction {
        "up" => Direction::Up,
        "down" => Direction::Down,
        _ => return None,
    };
    let count = match count {
        "packets" => RelayCount::Packets,
        "bytes" => RelayCount::Bytes,
        "lost" => RelayCount::Lost,
        _ => return None,
    };
    Some((direction, count))
}

/// Reads `==`, `!=`, `<=` or `>=`.
pub(crate) fn comparison(cursor: &mut Cursor<'_>) -> Result<Comparison, Failure> {
    Ok(match cursor.bare("a comparison")? {
        "==" => Comparison::Equal,
        "!=" => Comparison::Unequal,
        "<=" => Comparison::AtMost,
        ">=" => Comparison::AtLeast,
        other => return Err(Failure::new(format!("`{other}` is no comparison"))),
    })
}
