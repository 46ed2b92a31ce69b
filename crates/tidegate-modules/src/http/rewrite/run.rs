//! Runs a program on a request.

use bytes::Bytes;
use tidegate_codec::uri::hex_digit;
use tidegate_core::error_page::set_location;
use tidegate_core::regex::{MatchLimit, Regex};
use tidegate_core::template::any_is_true;
use tidegate_core::{Body, Exchange, Level, Step, Template};

use super::assignment::TooLong;
use super::compile::{Condition, Op, RewriteOp};
use super::condition::FileTest;
use super::conf::Flag;
use crate::http::files::{PathKind, PathProbe, ProbeResult, WouldBlock};
use crate::http::set_misc::Failed;

/// How a program continues.
enum Flow {
    Go,
    /// No more rewrite directives.
    Stop,
    End(Step<'static>),
    /// The same statement again, after a pool thread has made this file test.
    Again(WouldBlock),
}

/// Runs the program of a block.
pub(super) fn run(
    program: &[Op],
    x: &mut Exchange,
    probe: &mut PathProbe,
) -> Result<Step<'static>, WouldBlock> {
    for (index, op) in program.iter().enumerate().skip(probe.from()) {
        probe.reach(index);
        match run_op(op, x, probe) {
            Flow::Go => {}
            Flow::Stop => break,
            Flow::End(step) => return Ok(step),
            Flow::Again(cold) => return Err(cold),
        }
    }
    Ok(Step::Decline)
}

fn run_op(op: &Op, x: &mut Exchange, probe: &mut PathProbe) -> Flow {
    match op {
        Op::Break => {
            x.routing.stay_in_location();
            Flow::Stop
        }
        Op::Set(assignment) => match assignment.apply(x) {
            Ok(()) => Flow::Go,
            Err(TooLong) => Flow::End(Step::Status(500)),
        },
        Op::Misc(misc) => match misc.run(x) {
            Ok(()) => Flow::Go,
            Err(Failed) => Flow::End(Step::Status(500)),
        },
        Op::Return { status, text } => Flow::End(run_return(*status, text.as_ref(), x)),
        Op::Rewrite(rewrite) => run_rewrite(rewrite, x),
        Op::If { condition, location, log, body } => match holds(condition, *log, x, probe) {
            Ok(false) => Flow::Go,
            Ok(true) => {
                x.routing.location = *location;
                run_body(body, x, probe)
            }
            Err(end) => end,
        },
    }
}

/// Runs the body of an `if`, which contains no `if`: it is never run again.
fn run_body(body: &[Op], x: &mut Exchange, probe: &mut PathProbe) -> Flow {
    for op in body {
        match run_op(op, x, probe) {
            Flow::Go => {}
            flow => return flow,
        }
    }
    Flow::Go
}

/// Runs a `return`.
fn run_return(status: u16, text: Option<&Template>, x: &mut Exchange) -> Step<'static> {
    match (status, text) {
        // What nginx's manual says of 444 applies to the status without a text alone.
        (400.., None) => return Step::Status(status),
        (301 | 302 | 303 | 307 | 308, text) => {
            let place = text.map(|text| text.value(x)).unwrap_or_default();
            set_location(x, place);
            return Step::Status(status);
        }
        _ => {}
    }
    match status {
        // Any number up to 999 may be sent, zero included.
        0 => x.disposition.send_as(0),
        100..200 => x.response.reason = Some(Bytes::new()),
        _ => {}
    }
    x.disposition.set_status(status);
    let text = text.map(|text| text.body(x));
    if status == 204 {
        return Step::Respond(Body::Empty);
    }
    x.set_media_type();
    Step::Respond(text.unwrap_or_default().into())
}

/// Runs one `rewrite`; its flag decides how the program continues.
///
/// | flag | the path | then |
/// |---|---|---|
/// | none | is replaced | the next directive |
/// | `last` | is replaced, and its location searched again | no more directives of this block |
/// | `break` | is replaced, in this location | no more rewrite directives |
/// | `redirect`, `permanent`, a replacement with a scheme | is unchanged | 301 or 302 |
///
/// Invariant: captures of a decoded path are encoded again where they become part of a target. The arguments of the
/// request are appended unless the replacement ends in `?`. An empty path is an error of the configuration (500). A
/// rewritten request may enter `internal` locations. Source: `rewrite`.
fn run_rewrite(rewrite: &RewriteOp, x: &mut Exchange) -> Flow {
    match matches_path(rewrite, x) {
        Ok(false) => return Flow::Go,
        Ok(true) => {}
        Err(MatchLimit) => return Flow::End(Step::Status(500)),
    }
    let encode = target_was_encoded(x);
    // Captures in arguments, and those of a redirect, become parts of a target again.
    let mut path = Vec::with_capacity(128);
    match rewrite.flag {
        Flag::Redirect(_) if encode => rewrite.path.write_encoding_captures(x, &mut path),
        _ => rewrite.path.write(x, &mut path),
    }
    let args = rewrite.args.as_ref().map(|template| {
        let mut args = Vec::with_capacity(64);
        match encode {
            true => template.write_encoding_captures(x, &mut args),
            false => template.write(x, &mut args),
        }
        args
    });
    if let Flag::Redirect(status) = rewrite.flag {
        redirect(rewrite, path, args, x);
        return Flow::End(Step::Status(status));
    }
    if path.is_empty() {
        x.log(Level::Error, format_args!("the rewritten URI has a zero length"));
        return Flow::End(Step::Status(500));
    }
    // A rewritten request may enter `internal` locations.
    x.routing.make_internal();
    let args = joined_args(rewrite, args, x);
    if rewrite.log {
        let shown = args.as_deref().unwrap_or(&x.request.args);
        let (path, args) = (String::from_utf8_lossy(&path), String::from_utf8_lossy(shown));
        x.log(Level::Notice, format_args!("rewritten data: \"{path}\", args: \"{args}\""));
    }
    match rewrite.flag {
        Flag::Break => {
            x.rewrite_in_place(path, args);
            Flow::Stop
        }
        Flag::Last => {
            x.rewrite_to(path, args);
            Flow::Stop
        }
        _ => {
            x.rewrite_to(path, args);
            Flow::Go
        }
    }
}

fn matches_path(rewrite: &RewriteOp, x: &mut Exchange) -> Result<bool, MatchLimit> {
    let path = std::mem::take(&mut x.request.path);
    let matched = matches_text(&rewrite.regex, rewrite.log, &path, x);
    x.request.path = path;
    matched
}

/// Matches a text, and logs the result under `rewrite_log`.
fn matches_text(
    regex: &Regex,
    log: bool,
    text: &[u8],
    x: &mut Exchange,
) -> Result<bool, MatchLimit> {
    let matched = regex.capture(x, text)?;
    if log {
        let verb = if matched { "matches" } else { "does not match" };
        let (regex, text) = (regex.text(), String::from_utf8_lossy(text));
        x.log(Level::Notice, format_args!("\"{regex}\" {verb} \"{text}\""));
    }
    Ok(matched)
}

/// Returns true if the received path had percent-encoding or `+`: only then captures are encoded again.
fn target_was_encoded(x: &Exchange) -> bool {
    let target = x.request.target();
    let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
    path.iter().any(|byte| matches!(byte, b'%' | b'+'))
}

/// Returns the arguments after a rewrite; `None` leaves them unchanged.
fn joined_args(rewrite: &RewriteOp, args: Option<Vec<u8>>, x: &Exchange) -> Option<Vec<u8>> {
    match (args, rewrite.keeps_args) {
        (None, true) => None,
        (None, false) => Some(Vec::new()),
        (Some(mut args), true) if !x.request.args.is_empty() => {
            args.push(b'&');
            args.extend_from_slice(&x.request.args);
            Some(args)
        }
        (args, _) => args,
    }
}

fn redirect(rewrite: &RewriteOp, path: Vec<u8>, args: Option<Vec<u8>>, x: &mut Exchange) {
    let has_args = args.is_some();
    let mut place = path;
    if let Some(args) = args {
        place.push(b'?');
        place.extend_from_slice(&args);
    }
    let mut place = decoded_for_redirect(&place);
    if rewrite.keeps_args && !x.request.args.is_empty() {
        place.push(if has_args { b'&' } else { b'?' });
        place.extend_from_slice(&x.request.args);
    }
    if rewrite.log {
        let place = String::from_utf8_lossy(&place);
        x.log(Level::Notice, format_args!("rewritten redirect: \"{place}\""));
    }
    set_location(x, place);
}

/// Decodes visible characters from `%` (0x25) on up to the first `?`, as nginx shows redirects. Of an invalid code
/// the percent sign is dropped, and with it a valid first digit whose second is invalid.
fn decoded_for_redirect(place: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(place.len());
    let mut rest = place;
    while let Some((first, behind)) = rest.split_first() {
        let code = match (first, behind) {
            (b'%', [high, ..]) if hex_digit(*high).is_none() => {
                out.push(*high);
                rest = &behind[1..];
                continue;
            }
            (b'%', [high, low, ..]) => match hex_digit(*high).zip(hex_digit(*low)) {
                Some((high, low)) => Some(high << 4 | low),
                None => {
                    rest = &rest[3..];
                    continue;
                }
            },
            (b'%', _) => break,
            _ => None,
        };
        let byte = match code {
            Some(byte @ 0x26..0x7f) => byte,
            Some(_) => {
                out.extend_from_slice(&rest[..3]);
                rest = &rest[3..];
                continue;
            }
            None => *first,
        };
        rest = if code.is_some() { &rest[3..] } else { behind };
        out.push(byte);
        if byte == b'?' {
            out.extend_from_slice(rest);
            break;
        }
    }
    out
}

/// Evaluates a condition; an `Err` says how the program continues where it is not known yet.
fn holds(
    condition: &Condition,
    log: bool,
    x: &mut Exchange,
    probe: &mut PathProbe,
) -> Result<bool, Flow> {
    Ok(match condition {
        Condition::True(name) => any_is_true(std::slice::from_ref(name), x),
        Condition::Equal { name, text, negated } => {
            let value = name.value(x);
            let equal = match text.literal() {
                Some(text) => value == text,
                None => value == text.value(x),
            };
            equal != *negated
        }
        Condition::Match { name, regex, negated } => {
            let value = name.value(x);
            let matched = matches_text(regex, log, &value, x);
            matched.map_err(|MatchLimit| Flow::End(Step::Status(500)))? != *negated
        }
        Condition::File { test, path, negated } => {
            let path = path.value(x);
            let found = probe.test(x, &path).map_err(Flow::Again)?;
            found.is_ok_and(|found| suits(*test, found)) != *negated
        }
    })
}

fn suits(test: FileTest, found: ProbeResult) -> bool {
    match test {
        FileTest::Plain => found.kind == PathKind::File,
        FileTest::Directory => found.kind == PathKind::Directory,
        FileTest::Exists => true,
        FileTest::Executable => found.executable,
    }
}
