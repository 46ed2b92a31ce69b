//! The words of a script about a relay.

use std::net::IpAddr;
use std::time::Duration;

use super::Direction;
use super::link::{Choice, Rule};
use crate::bell::Failure;
use crate::words::Cursor;

/// A line `relay NAME …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayLine {
    /// `to u1`: starts it.
    To(String),
    /// `seed N`: for what it does by chance
    Seed(u64),
    /// `[up | down] RULE…`: from now on
    Rules(Vec<Direction>, Vec<Rule>),
    /// `rebind [ADDRESS]`: goes on from other ports towards the server
    Rebind(Option<IpAddr>),
}

/// Numbers of a direction, before `lost` of those that arrived at the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayCount {
    /// `r1.up.packets`
    Packets,
    /// `r1.up.bytes`
    Bytes,
    /// `r1.up.lost`
    Lost,
}

/// Parses the words after `relay NAME`.
pub(crate) fn relay_line(cursor: &mut Cursor<'_>) -> Result<RelayLine, Failure> {
    if cursor.accept("to") {
        return Ok(RelayLine::To(cursor.bare("a UDP port's name")?.to_owned()));
    }
    if cursor.accept("seed") {
        return Ok(RelayLine::Seed(cursor.number("a number")?));
    }
    if cursor.accept("rebind") {
        let Some(word) = cursor.peek() else { return Ok(RelayLine::Rebind(None)) };
        cursor.word();
        let address = word.parse();
        let address = address.map_err(|_| Failure::new(format!("`{word}` is no address")))?;
        return Ok(RelayLine::Rebind(Some(address)));
    }
    let directions = match (cursor.accept("up"), cursor.accept("down")) {
        (true, false) => vec![Direction::Up],
        (false, true) => vec![Direction::Down],
        _ => vec![Direction::Up, Direction::Down],
    };
    let mut rules = Vec::new();
    while rules.is_empty() || cursor.peek_word().is_some() {
        rules.push(rule(cursor)?);
    }
    Ok(RelayLine::Rules(directions, rules))
}

fn rule(cursor: &mut Cursor<'_>) -> Result<Rule, Failure> {
    Ok(match cursor.bare("a rule")? {
        "drop" => Rule::Drop(choice(cursor)?),
        "duplicate" => Rule::Duplicate(choice(cursor)?),
        "reorder" => Rule::Reorder(choice(cursor)?),
        "corrupt" => Rule::Corrupt(choice(cursor)?),
        "delay" => Rule::Delay(span(cursor)?),
        "rate" => Rule::Rate(positive(cursor)?, positive(cursor)?),
        "blackhole" => Rule::Blackhole(span(cursor)?),
        "mark" => Rule::Mark(mark(cursor)?),
        "clear" => Rule::Clear,
        other => return Err(Failure::new(format!("a relay has no rule `{other}`"))),
    })
}

/// `none`, `every N`, `N%`, or numbers.
fn choice(cursor: &mut Cursor<'_>) -> Result<Choice, Failure> {
    if cursor.accept("none") {
        return Ok(Choice::None);
    }
    if cursor.accept("every") {
        return positive(cursor).map(Choice::Every);
    }
    if let Some(percent) = cursor.peek().and_then(|word| word.strip_suffix('%')?.parse().ok()) {
        cursor.word();
        return Ok(Choice::Percent(percent));
    }
    let mut numbers = vec![positive(cursor)?];
    while let Some(number) = cursor.peek().and_then(|word| word.parse().ok()) {
        cursor.word();
        numbers.push(number);
    }
    Ok(Choice::Numbers(numbers))
}

/// `ect0` or `ce`.
fn mark(cursor: &mut Cursor<'_>) -> Result<u32, Failure> {
    match cursor.bare("a mark")? {
        "ect0" => Ok(2),
        "ce" => Ok(3),
        other => Err(Failure::new(format!("ECN has no mark `{other}`"))),
    }
}

fn positive(cursor: &mut Cursor<'_>) -> Result<u64, Failure> {
    let number = cursor.number("a number")?;
    if number == 0 { Err(Failure::new("a number above 0 is missing")) } else { Ok(number) }
}

/// `50ms` or `2s`.
fn span(cursor: &mut Cursor<'_>) -> Result<Duration, Failure> {
    let word = cursor.bare("a time")?;
    let (digits, scale) = match word.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (word.strip_suffix('s').unwrap_or(word), 1000),
    };
    let number: u64 =
        digits.parse().map_err(|_| Failure::new(format!("`{word}` is no time such as 50ms")))?;
    Ok(Duration::from_millis(number * scale))
}
