//! The directives as written: options, then fields.

use tidegate_codec::Known;
use tidegate_codec::connection::is_token;
use tidegate_conf::{Args, Diagnostic, Span};

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub(super) output: Vec<RuleConf>,
    pub(super) input: Vec<RuleConf>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// One directive.
#[derive(Clone)]
pub(super) struct RuleConf {
    pub options: Options,
    pub fields: Vec<FieldConf>,
}

/// What a directive is restricted to.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// `-s`; empty: all.
    pub statuses: Vec<u16>,
    /// `-t`; empty: all.
    pub types: Vec<Vec<u8>>,
    /// `-a`: existing fields stay.
    pub append: bool,
    /// `-r`: a field that does not exist is not added.
    pub replace: bool,
}

/// A field as written.
#[derive(Clone)]
pub(super) struct FieldConf {
    /// May end in `*`; then there is no value.
    pub name: Vec<u8>,
    /// Empty: the field is removed.
    pub value: Vec<u8>,
    pub span: Span,
}

/// Whether the words of a directive have values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Clear,
}

/// The message whose fields a directive changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Output,
    Input,
}

impl Conf {
    /// Takes a directive about responses.
    pub(super) fn add_output(&mut self, args: &Args<'_>, mode: Mode) -> Result<(), Diagnostic> {
        let mut rule = read(args, mode, Side::Output)?;
        self.leave_out(&mut rule, |known, value| match known {
            Known::TransferEncoding => true,
            // Without the field a body ends with its last chunk.
            Known::ContentLength => !value.is_empty(),
            Known::Connection => value.is_empty(),
            _ => false,
        });
        self.output.push(rule);
        Ok(())
    }

    /// Takes a directive about requests.
    pub(super) fn add_input(&mut self, args: &Args<'_>, mode: Mode) -> Result<(), Diagnostic> {
        let mut rule = read(args, mode, Side::Input)?;
        self.leave_out(&mut rule, |known, value| {
            matches!(known, Known::ContentLength | Known::TransferEncoding) && !value.is_empty()
        });
        self.input.push(rule);
        Ok(())
    }

    /// Leaves fields out, with a warning, by which two servers could disagree on where a message ends (RFC 9112
    /// section 6.3).
    fn leave_out(&mut self, rule: &mut RuleConf, is_framing: fn(Known, &[u8]) -> bool) {
        rule.fields.retain(|field| {
            let is_framing = is_framing(Known::of(&field.name), &field.value);
            if is_framing {
                let name = String::from_utf8_lossy(&field.name);
                let message = format!("the field \"{name}\" is left as it is");
                let warning = Diagnostic::warn(message).at(field.span);
                self.warnings.push(warning.help("the server itself says where a body ends"));
            }
            !is_framing
        });
    }
}

fn read(args: &Args<'_>, mode: Mode, side: Side) -> Result<RuleConf, Diagnostic> {
    let mut options = Options::default();
    let mut fields = Vec::new();
    let mut index = 0;
    while index < args.len() {
        let option = args.bytes(index);
        if option.first() != Some(&b'-') {
            fields.push(field(args, index, mode)?);
            index += 1;
            continue;
        }
        match (option, side, mode) {
            (b"-a", Side::Output, Mode::Set) => options.append = true,
            (b"-r", Side::Input, Mode::Set) => options.replace = true,
            (b"-t", ..) | (b"-s", Side::Output, _) if index + 1 == args.len() => {
                let option = args.word(index).display();
                return Err(args.error(index, format!("option {option} takes an argument")));
            }
            (b"-t", ..) => {
                index += 1;
                options.types.extend(words(args.bytes(index)).map(<[u8]>::to_vec));
            }
            (b"-s", Side::Output, _) => {
                index += 1;
                statuses(args, index, &mut options.statuses)?;
            }
            _ => {
                let option = args.word(index).display();
                return Err(args.error(index, format!("invalid option name: \"{option}\"")));
            }
        }
        index += 1;
    }
    if fields.is_empty() {
        return Err(args.error_here(format!("no field in \"{}\" directive", args.name())));
    }
    if options.append {
        check_append(args, &fields)?;
    }
    Ok(RuleConf { options, fields })
}

fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn statuses(args: &Args<'_>, index: usize, statuses: &mut Vec<u16>) -> Result<(), Diagnostic> {
    for word in words(args.bytes(index)) {
        let status =
            tidegate_conf::parse_number(word).and_then(|number| u16::try_from(number).ok());
        let Some(status) = status.filter(|status| *status <= STATUS_MAX) else {
            let list = args.word(index).display();
            return Err(args.error(index, format!("invalid status code list \"{list}\"")));
        };
        statuses.push(status);
    }
    Ok(())
}

/// The highest status.
const STATUS_MAX: u16 = 999;

/// Reads `Name: value`, `Name:` or `Name`.
fn field(args: &Args<'_>, index: usize, mode: Mode) -> Result<FieldConf, Diagnostic> {
    let word = args.bytes(index);
    let colon = word.iter().position(|byte| *byte == b':').unwrap_or(word.len());
    let name = word[..colon].trim_ascii();
    let value = word.get(colon + 1..).unwrap_or_default().trim_ascii_start();
    let value = if mode == Mode::Clear { b"" } else { value };
    let shown = String::from_utf8_lossy(name);
    if name.contains(&b'$') {
        let message = format!("variables in the name of a field: \"{shown}\"");
        return Err(args.error(index, message).help("only values may have variables"));
    }
    if !is_token(name) {
        return Err(args.error(index, format!("invalid field name \"{shown}\"")));
    }
    match name.strip_suffix(b"*") {
        Some([]) => return Err(args.error(index, format!("wildcard key too short: {shown}"))),
        Some(_) if !value.is_empty() => {
            let message = format!("a value for all fields \"{shown}\"");
            return Err(args.error(index, message).help("such fields can be removed only"));
        }
        _ => {}
    }
    Ok(FieldConf { name: name.to_vec(), value: value.to_vec(), span: args.word(index).span })
}

/// Refuses `-a` for fields that a response has once.
fn check_append(args: &Args<'_>, fields: &[FieldConf]) -> Result<(), Diagnostic> {
    let single = fields.iter().find(|field| SINGLE.contains(&Known::of(&field.name)));
    let Some(field) = single else { return Ok(()) };
    let message = format!(
        "can not append builtin headers \"{}\" in \"{}\" directive",
        String::from_utf8_lossy(&field.name),
        args.name()
    );
    Err(Diagnostic::emerg(message).at(field.span).label("a response has it once"))
}

const SINGLE: &[Known] = &[
    Known::Server,
    Known::Date,
    Known::ContentType,
    Known::ContentLength,
    Known::ContentEncoding,
    Known::ContentRange,
    Known::Location,
    Known::Refresh,
    Known::LastModified,
    Known::AcceptRanges,
    Known::Expires,
    Known::Etag,
    Known::WwwAuthenticate,
];
