//! `CDN-Cache-Control` (RFC 9213): cache directives for shared caches in front of an origin, written
//! as a Dictionary of Structured Fields (RFC 8941 section 3.2).

use super::super::{CacheControl, SECONDS_MAX, Seconds};
use crate::headers::Headers;

const FIELD: &[u8] = b"CDN-Cache-Control";

/// Reads the directives of the field; returns `None` when there is none, or it is empty or malformed, which
/// is the same (RFC 9213 section 2.1).
pub(super) fn of(response: &Headers) -> Option<CacheControl> {
    let mut lines = response.all_named(FIELD);
    let mut text = lines.next()?.to_vec();
    for line in lines {
        text.extend_from_slice(b", ");
        text.extend_from_slice(line);
    }
    let members = Parser(&text).dictionary().filter(|members| !members.is_empty())?;
    let mut control = CacheControl::default();
    for (index, (name, value)) in members.iter().enumerate() {
        // The last of several members of a name counts (RFC 8941 section 4.2.2).
        if members[index + 1..].iter().all(|(later, _)| later != name) {
            apply(&mut control, name, *value);
        }
    }
    Some(control)
}

/// The value of a member, as far as a directive can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Integer(i64),
    Boolean(bool),
    Other,
}

fn apply(control: &mut CacheControl, name: &[u8], value: Value) {
    let said = value != Value::Boolean(false);
    // A time that is no integer counts as unreadable: stale.
    let seconds = match value {
        Value::Integer(number) if number >= 0 => {
            Seconds::Number(u32::try_from(number).unwrap_or(SECONDS_MAX).min(SECONDS_MAX))
        }
        _ => Seconds::Invalid,
    };
    match name {
        b"no-store" => control.no_store = said,
        b"no-cache" => control.no_cache = said,
        b"private" => control.private = said,
        b"public" => control.public = said,
        b"must-revalidate" => control.must_revalidate = said,
        b"proxy-revalidate" => control.proxy_revalidate = said,
        b"must-understand" => control.must_understand = said,
        b"no-transform" => control.no_transform = said,
        b"immutable" => control.immutable = said,
        b"max-age" => control.max_age = Some(seconds),
        b"s-maxage" => control.s_maxage = Some(seconds),
        b"stale-while-revalidate" => control.stale_while_revalidate = Some(seconds),
        b"stale-if-error" => control.stale_if_error = Some(seconds),
        _ => {}
    }
}

/// The rest of the input. Every method takes the part it reads off the front, or returns `None`.
struct Parser<'a>(&'a [u8]);

impl<'a> Parser<'a> {
    fn dictionary(&mut self) -> Option<Vec<(&'a [u8], Value)>> {
        let mut members = Vec::new();
        self.skip(b" ");
        while !self.0.is_empty() {
            let name = self.key()?;
            let value = match self.takes(b'=') {
                true => self.member()?,
                false => Value::Boolean(true),
            };
            self.parameters()?;
            members.push((name, value));
            self.skip(b" \t");
            if self.0.is_empty() {
                break;
            }
            if !self.takes(b',') {
                return None;
            }
            self.skip(b" \t");
            // A comma is followed by a member.
            self.0.first()?;
        }
        Some(members)
    }

    fn member(&mut self) -> Option<Value> {
        if !self.takes(b'(') {
            return self.item();
        }
        loop {
            self.skip(b" ");
            if self.takes(b')') {
                return Some(Value::Other);
            }
            self.item()?;
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.takes(b';') {
            self.skip(b" ");
            self.key()?;
            if self.takes(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.0.first().filter(|byte| byte.is_ascii_lowercase() || **byte == b'*')?;
        let is_key = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte)
        };
        Some(self.take_while(is_key))
    }

    fn item(&mut self) -> Option<Value> {
        match self.0.first()? {
            b'"' => self.string(),
            b'?' => {
                let truth = self.0.get(1)?;
                self.0 = self.0.get(2..)?;
                matches!(truth, b'0' | b'1').then_some(Value::Boolean(*truth == b'1'))
            }
            b':' => {
                self.takes(b':');
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte));
                self.takes(b':').then_some(Value::Other)
            }
            b'-' | b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || *byte == b'*' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte)
                });
                Some(Value::Other)
            }
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Value> {
        self.takes(b'"');
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return Some(Value::Other),
                b'\\' => {
                    let (escaped, rest) = self.0.split_first()?;
                    self.0 = rest;
                    if !matches!(escaped, b'"' | b'\\') {
                        return None;
                    }
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// Reads an integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Value> {
        let negative = self.takes(b'-');
        let digits = self.take_while(u8::is_ascii_digit);
        if self.takes(b'.') {
            let fraction = self.take_while(u8::is_ascii_digit);
            let fits = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(Value::Other);
        }
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        let number = digits.iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if negative { -number } else { number }))
    }

    fn take_while(&mut self, fits: impl Fn(&u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !fits(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn takes(&mut self, wanted: u8) -> bool {
        match self.0.split_first() {
            Some((byte, rest)) if *byte == wanted => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(byte));
    }
}
