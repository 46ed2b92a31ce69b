//! Which requests a watcher wants: `status >= 500 and (time > 1s or not cache = HIT)`.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { "and" not }
//! not   = "not" not | "(" or ")" | test
//! test  = FIELD ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" ) VALUE
//! ```
//! `~` is "contains". A value is one word, or a text in quotes. There are neither regular expressions nor repetition: a test
//! costs at most the length of a value, and an expression has at most [`TESTS_MAX`] of them.

use super::record::{NUMBERS, Record, TEXTS, Unit};

/// Longest expression, in bytes.
const BYTES_MAX: usize = 1024;
/// Most tests of an expression.
const TESTS_MAX: usize = 64;
/// Deepest nesting of `not` and parentheses.
const DEPTH_MAX: usize = 16;

/// A compiled expression; the default holds for all requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Option<Node>);

#[derive(Debug, PartialEq, Eq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    /// Whether a number, by its place in the record, is in one of these orders to the value.
    Number {
        field: usize,
        wants: Wants,
        value: u64,
    },
    /// Whether a text is equal to the value, or contains it.
    Text {
        field: usize,
        contains: bool,
        value: Vec<u8>,
    },
}

/// The orders of a number to a value for which a test holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wants {
    less: bool,
    equal: bool,
    greater: bool,
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterError {
    /// The byte at which the wrong part begins, counted from 1.
    pub at: usize,
    pub what: String,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at character {} of the expression", self.what, self.at)
    }
}

impl Filter {
    /// Compiles an expression; an empty one holds always.
    ///
    /// # Errors
    /// It is none, or too large.
    pub(crate) fn compile(text: &str) -> Result<Filter, FilterError> {
        if text.trim().is_empty() {
            return Ok(Filter(None));
        }
        if text.len() > BYTES_MAX {
            let what = format!("more than {BYTES_MAX} bytes");
            return Err(FilterError { at: BYTES_MAX + 1, what });
        }
        let mut parser = Parser { text, at: 0, tests: 0 };
        let node = parser.any(0)?;
        let behind = parser.error("expected `and`, `or` or the end");
        match parser.token()? {
            Token::End => Ok(Filter(Some(node))),
            _ => Err(behind),
        }
    }

    pub(crate) fn holds(&self, record: &Record) -> bool {
        self.0.as_ref().is_none_or(|node| node.holds(record))
    }
}

impl Node {
    /// Recursion ends: the parser limits the depth.
    fn holds(&self, record: &Record) -> bool {
        match self {
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(record)),
            Node::All(nodes) => nodes.iter().all(|node| node.holds(record)),
            Node::Not(node) => !node.holds(record),
            Node::Number { field, wants, value } => match record.numbers[*field].cmp(value) {
                std::cmp::Ordering::Less => wants.less,
                std::cmp::Ordering::Equal => wants.equal,
                std::cmp::Ordering::Greater => wants.greater,
            },
            Node::Text { field, contains: false, value } => record.texts[*field] == *value,
            Node::Text { field, contains: true, value } => {
                memchr::memmem::find(&record.texts[*field], value).is_some()
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Operator(&'static str),
    Open,
    Close,
    End,
}

/// The longest first.
const OPERATORS: [&str; 9] = ["<=", ">=", "!=", "!~", "==", "=", "<", ">", "~"];

struct Parser<'a> {
    text: &'a str,
    /// Where the token begins that was read last, and the next one.
    at: usize,
    tests: usize,
}

impl Parser<'_> {
    fn any(&mut self, depth: usize) -> Result<Node, FilterError> {
        let first = self.all(depth)?;
        self.list(first, "or", Node::Any, |parser| parser.all(depth))
    }

    fn all(&mut self, depth: usize) -> Result<Node, FilterError> {
        let first = self.not(depth)?;
        self.list(first, "and", Node::All, |parser| parser.not(depth))
    }

    /// Parses further parts behind a word between them.
    fn list(
        &mut self,
        first: Node,
        between: &str,
        join: fn(Vec<Node>) -> Node,
        part: impl Fn(&mut Self) -> Result<Node, FilterError>,
    ) -> Result<Node, FilterError> {
        let mut nodes = vec![first];
        loop {
            let before = self.at;
            match self.token()? {
                Token::Word(word) if word == between => nodes.push(part(self)?),
                _ => {
                    self.at = before;
                    break;
                }
            }
        }
        match nodes.len() {
            1 => Ok(nodes.remove(0)),
            _ => Ok(join(nodes)),
        }
    }

    fn not(&mut self, depth: usize) -> Result<Node, FilterError> {
        if depth > DEPTH_MAX {
            return Err(self.error("too deep"));
        }
        let before = self.at;
        match self.token()? {
            Token::Word(word) if word == "not" => Ok(Node::Not(Box::new(self.not(depth + 1)?))),
            Token::Open => {
                let node = self.any(depth + 1)?;
                let end = self.at;
                match self.token()? {
                    Token::Close => Ok(node),
                    _ => Err(FilterError { at: end + 1, what: "expected `)`".to_owned() }),
                }
            }
            Token::Word(field) => self.test(&field, before),
            _ => Err(FilterError { at: before + 1, what: "expected a field".to_owned() }),
        }
    }

    fn test(&mut self, field: &str, at: usize) -> Result<Node, FilterError> {
        self.tests += 1;
        if self.tests > TESTS_MAX {
            let what = format!("more than {TESTS_MAX} tests");
            return Err(FilterError { at: at + 1, what });
        }
        let number = NUMBERS.iter().position(|known| known.name == field);
        let text = TEXTS.iter().position(|known| known.name == field);
        let known = || {
            let numbers = NUMBERS.iter().map(|known| known.name);
            numbers.chain(TEXTS.iter().map(|known| known.name)).collect::<Vec<_>>().join(", ")
        };
        if number.is_none() && text.is_none() {
            let what = format!("unknown field \"{field}\" (there are {})", known());
            return Err(FilterError { at: at + 1, what });
        }
        let place = self.at;
        let Token::Operator(operator) = self.token()? else {
            return Err(FilterError {
                at: place + 1,
                what: "expected `=`, `<` or the like".into(),
            });
        };
        let value_at = self.at;
        let value = match self.token()? {
            Token::Word(value) | Token::Quoted(value) => value,
            _ => return Err(FilterError { at: value_at + 1, what: "expected a value".into() }),
        };
        let negated = matches!(operator, "!=" | "!~");
        let node = match (number, text) {
            (Some(field), _) => {
                let wants = match operator {
                    "=" | "==" | "!=" => Wants { less: false, equal: true, greater: false },
                    "<" => Wants { less: true, equal: false, greater: false },
                    "<=" => Wants { less: true, equal: true, greater: false },
                    ">" => Wants { less: false, equal: false, greater: true },
                    ">=" => Wants { less: false, equal: true, greater: true },
                    _ => {
                        let what = format!("`{operator}` compares texts");
                        return Err(FilterError { at: place + 1, what });
                    }
                };
                let value = parse(NUMBERS[field].unit, &value).ok_or_else(|| FilterError {
                    at: value_at + 1,
                    what: format!("invalid {} \"{value}\"", NUMBERS[field].unit.called()),
                })?;
                Node::Number { field, wants, value }
            }
            (None, Some(field)) => match operator {
                "=" | "==" | "!=" | "~" | "!~" => {
                    let contains = operator.ends_with('~');
                    Node::Text { field, contains, value: value.into_bytes() }
                }
                _ => {
                    let what = format!("`{operator}` compares numbers");
                    return Err(FilterError { at: place + 1, what });
                }
            },
            (None, None) => return Err(FilterError { at: at + 1, what: "unknown field".into() }),
        };
        Ok(if negated { Node::Not(Box::new(node)) } else { node })
    }

    fn error(&self, what: &str) -> FilterError {
        FilterError { at: self.at + 1, what: what.to_owned() }
    }

    /// Reads a token; white space behind it is skipped, so that `at` is where the next one begins.
    fn token(&mut self) -> Result<Token, FilterError> {
        self.skip_space();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let (token, length) = match rest.chars().next() {
            None => (Token::End, 0),
            Some('(') => (Token::Open, 1),
            Some(')') => (Token::Close, 1),
            Some(quote @ ('"' | '\'')) => {
                let end = rest[1..].find(quote).ok_or_else(|| self.error("unclosed quote"))?;
                (Token::Quoted(rest[1..=end].to_owned()), end + 2)
            }
            Some(_) => match OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
                Some(operator) => (Token::Operator(operator), operator.len()),
                None => {
                    let is_end =
                        |letter: char| letter.is_whitespace() || "()<>=!~\"'".contains(letter);
                    match rest.find(is_end).unwrap_or(rest.len()) {
                        0 => return Err(self.error("unexpected `!`")),
                        length => (Token::Word(rest[..length].to_owned()), length),
                    }
                }
            },
        };
        self.at += length;
        self.skip_space();
        Ok(token)
    }

    fn skip_space(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_start().len();
    }
}

/// Parses a number with its unit.
fn parse(unit: Unit, text: &str) -> Option<u64> {
    match unit {
        Unit::Number => text.parse().ok(),
        Unit::Bytes => tidegate_conf::parse_offset(text.as_bytes()),
        // Seconds with a fraction, or as in the configuration.
        Unit::Micros => match text.parse::<f64>() {
            Ok(seconds) if (0.0..1e9).contains(&seconds) => Some((seconds * 1e6).round() as u64),
            Ok(_) => None,
            Err(_) => {
                let time = tidegate_conf::parse_milliseconds(text.as_bytes())?;
                u64::try_from(time.as_micros()).ok()
            }
        },
    }
}

/// Compiles any text as an expression and applies it (fuzzing).
#[doc(hidden)]
pub fn fuzz_log_query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Filter::compile(&text) {
        Ok(filter) => {
            let _ = filter.holds(&Record::default());
        }
        Err(error) => assert!(error.at <= text.len() + 1, "{error}"),
    }
}
