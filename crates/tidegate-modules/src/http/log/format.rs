//! Formats: templates whose values are escaped in place.

use tidegate_conf::{Diagnostic, Span};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;

use super::conf::FormatConf;
use super::json::Object;

/// `escape=`: how values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// `"`, `\`, controls and bytes above 126 as `\xHH`; `-` for a variable without a value.
    Default,
    /// As in a JSON string.
    Json,
    None,
}

/// A compiled `log_format`.
#[derive(Debug)]
pub(super) enum Format {
    Text { template: Template, escape: Escape },
    Json(Object),
}

const COMBINED: &[u8] = b"$remote_addr - $remote_user [$time_local] \"$request\" $status \
    $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

impl Format {
    /// Compiles the predefined format.
    pub(super) fn combined(plan: &mut PlanBuilder<'_>) -> Result<Format, Diagnostic> {
        let template = plan.template_text(COMBINED, Span::NONE)?;
        Ok(Format::Text { template, escape: Escape::Default })
    }

    pub(super) fn compile(
        conf: &FormatConf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Format, Diagnostic> {
        if let Some(members) = &conf.members {
            return Object::compile(members, plan).map(Format::Json);
        }
        let template = plan.template_text(&conf.text, conf.span)?;
        Ok(Format::Text { template, escape: conf.escape })
    }

    /// Appends the line without its line feed.
    pub(super) fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        let (template, escape) = match self {
            Format::Json(object) => return object.write(x, out),
            Format::Text { template, escape } => (template, escape),
        };
        match escape {
            Escape::Default => template.write_escaped(x, out, escape_default),
            Escape::Json => template.write_escaped(x, out, escape_json),
            Escape::None => template.write(x, out),
        }
    }
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Escapes all from `start` on, or writes `-` where there is no value.
pub(crate) fn escape_default(out: &mut Vec<u8>, start: usize, found: bool) {
    if !found {
        out.truncate(start);
        out.push(b'-');
        return;
    }
    let harmful = |byte: u8| !(b' '..0x7f).contains(&byte) || byte == b'"' || byte == b'\\';
    rewrite(out, start, harmful, |byte, out| {
        let digits = [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]];
        out.extend_from_slice(&[b'\\', b'x', digits[0], digits[1]]);
    });
}

/// Escapes all from `start` on for a JSON string; bytes above 127 are kept.
pub(crate) fn escape_json(out: &mut Vec<u8>, start: usize, _found: bool) {
    let harmful = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    rewrite(out, start, harmful, |byte, out| {
        let letter = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(DIGITS[(byte >> 4) as usize]);
                return out.push(DIGITS[(byte & 15) as usize]);
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    });
}

/// Replaces the bytes from `start` on that need it. Most values have none and are only scanned.
fn rewrite(
    out: &mut Vec<u8>,
    start: usize,
    harmful: impl Fn(u8) -> bool,
    replace: impl Fn(u8, &mut Vec<u8>),
) {
    let Some(first) = out[start..].iter().position(|byte| harmful(*byte)) else { return };
    let tail = out.split_off(start + first);
    for byte in tail {
        if harmful(byte) {
            replace(byte, out);
        } else {
            out.push(byte);
        }
    }
}
