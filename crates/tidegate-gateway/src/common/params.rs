//! `fastcgi_param` and its kin: the parameters sent to an application, and their packing.

use tidegate_codec::range::write_number;
use tidegate_codec::request::parse_authority;
use tidegate_codec::{Known, cgi, fastcgi};
use tidegate_conf::{Args, Diagnostic, Word};
use tidegate_core::{Exchange, Template};
use tidegate_plan::PlanBuilder;

/// One `*_param` as written.
#[derive(Clone, Debug)]
pub struct ParamConf {
    name: Word,
    value: Word,
    if_not_empty: bool,
}

/// The packing of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    FastCgi,
    Scgi,
    Uwsgi,
}

impl Packing {
    /// Appends one pair.
    pub fn pair(self, name: &[u8], out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Packing::FastCgi => fastcgi::pair(name, out, value),
            Packing::Scgi => cgi::scgi_pair(name, out, value),
            Packing::Uwsgi => cgi::uwsgi_pair(name, out, value),
        }
    }
}

/// The parameters of a location.
#[derive(Debug)]
pub(crate) struct Params {
    packing: Packing,
    items: Vec<ParamItem>,
    /// Names of client fields that are not passed on by themselves, in the form `HTTP_…` without the prefix.
    replaced: Vec<Box<[u8]>>,
    pass_headers: bool,
}

#[derive(Debug)]
enum ParamItem {
    /// Pairs without variables, packed once.
    Packed(Vec<u8>),
    Value {
        name: Box<[u8]>,
        value: Template,
        if_not_empty: bool,
    },
}

/// The prefix of a client field.
const FIELD: &[u8] = b"HTTP_";

/// Client fields that requests for the cache do not pass on: ranges and conditions.
const CACHE_DEFAULTS: [(&str, &str); 6] = [
    ("HTTP_IF_MODIFIED_SINCE", "$upstream_cache_last_modified"),
    ("HTTP_IF_NONE_MATCH", "$upstream_cache_etag"),
    ("HTTP_IF_UNMODIFIED_SINCE", ""),
    ("HTTP_IF_MATCH", ""),
    ("HTTP_RANGE", ""),
    ("HTTP_IF_RANGE", ""),
];

/// Adds a `*_param`.
///
/// # Errors
/// The third argument is not `if_not_empty`.
pub(crate) fn add(list: &mut Option<Vec<ParamConf>>, args: &Args<'_>) -> Result<(), Diagnostic> {
    let if_not_empty = match args.bytes(2) {
        b"" => false,
        b"if_not_empty" => true,
        _ => return Err(args.invalid_parameter(2)),
    };
    let (name, value) = (args.word(0).clone(), args.word(1).clone());
    list.get_or_insert_default().push(ParamConf { name, value, if_not_empty });
    Ok(())
}

impl Params {
    /// Compiles a block's parameters.
    pub(crate) fn compile(
        conf: Option<&[ParamConf]>,
        packing: Packing,
        pass_headers: bool,
        for_cache: bool,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Params, Diagnostic> {
        let mut params = Params { packing, items: Vec::new(), replaced: Vec::new(), pass_headers };
        for param in conf.unwrap_or_default() {
            let template = plan.template(&param.value)?;
            params.add(&param.name.bytes, template, param.if_not_empty);
        }
        if for_cache {
            for (name, text) in CACHE_DEFAULTS {
                if params.replaces(&name.as_bytes()[FIELD.len()..]) {
                    continue;
                }
                match text {
                    "" => params.replaced.push(name.as_bytes()[FIELD.len()..].into()),
                    text => {
                        let span = tidegate_conf::Span::NONE;
                        let template = plan.template_text(text.as_bytes(), span)?;
                        params.add(name.as_bytes(), template, true);
                    }
                }
            }
        }
        Ok(params)
    }

    fn add(&mut self, name: &[u8], value: Template, if_not_empty: bool) {
        if let Some(field) = name.strip_prefix(FIELD) {
            self.replaced.push(field.into());
        }
        let Some(text) = value.literal() else {
            self.items.push(ParamItem::Value { name: name.into(), value, if_not_empty });
            return;
        };
        // An empty parameter leaves the client's field out, as documented in the manual.
        if text.is_empty() && (if_not_empty || name.starts_with(FIELD)) {
            return;
        }
        let mut packed = match self.items.pop() {
            Some(ParamItem::Packed(packed)) => packed,
            other => {
                self.items.extend(other);
                Vec::new()
            }
        };
        self.packing.pair(name, &mut packed, |out| out.extend_from_slice(text));
        self.items.push(ParamItem::Packed(packed));
    }

    /// Returns whether a parameter replaces the client's field of this name.
    fn replaces(&self, field: &[u8]) -> bool {
        self.replaced.iter().any(|replaced| is_field(replaced, field))
    }

    /// Appends the parameters and the client's fields.
    pub(crate) fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) {
        for item in &self.items {
            match item {
                ParamItem::Packed(packed) => out.extend_from_slice(packed),
                ParamItem::Value { name, value, if_not_empty } => {
                    let start = out.len();
                    let mut is_empty = false;
                    self.packing.pair(name, out, |out| {
                        let start = out.len();
                        value.write(x, out);
                        is_empty = out.len() == start;
                    });
                    if *if_not_empty && is_empty {
                        out.truncate(start);
                    }
                }
            }
        }
        if self.pass_headers {
            self.write_fields(x, out);
        }
    }

    /// Writes the client's fields as `HTTP_NAME` (RFC 3875 section 4.1.18); repeated fields are joined.
    ///
    /// Invariant: each name occurs once, at the place of its first field. Values are joined as RFC 9110 section 5.3
    /// allows it, by `, `, and cookies by `; ` (RFC 6265 section 5.4). A field that a `*_param` replaces is not
    /// passed. `HTTP_HOST` is the name by which the server was found, whatever the field contains.
    fn write_fields(&self, x: &Exchange, out: &mut Vec<u8>) {
        let headers = &x.request.head.headers;
        let mut parameter = Vec::with_capacity(64);
        let mut seen: u64 = 0;
        // The host by which the server was found, whatever the field contains: `$host$is_request_port$request_port`.
        seen |= 1u64 << Known::Host as u8;
        if !x.host().is_empty() && !self.replaces(b"Host") {
            self.packing.pair(b"HTTP_HOST", out, |out| write_host(x, out));
        }
        for (index, (known, name, value)) in headers.iter().enumerate() {
            let came_before = match known {
                Known::Other => headers
                    .iter()
                    .take(index)
                    .any(|(_, earlier, _)| earlier.eq_ignore_ascii_case(name)),
                known => {
                    let bit = 1u64 << known as u8;
                    let before = seen & bit != 0;
                    seen |= bit;
                    before
                }
            };
            if came_before || self.replaces(name) {
                continue;
            }
            parameter.clear();
            parameter.extend_from_slice(FIELD);
            parameter.extend(name.iter().map(|byte| match byte {
                b'-' => b'_',
                byte => byte.to_ascii_uppercase(),
            }));
            self.packing.pair(&parameter, out, |out| {
                out.extend_from_slice(value);
                let separator: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
                for (_, later, value) in headers.iter().skip(index + 1) {
                    if later.eq_ignore_ascii_case(name) {
                        out.extend_from_slice(separator);
                        out.extend_from_slice(value);
                    }
                }
            });
        }
    }
}

/// Writes host and port of the request: the application sees the name by which the server was chosen.
fn write_host(x: &Exchange, out: &mut Vec<u8>) {
    out.extend_from_slice(x.host());
    let Some(written) = x.request.head.host_text().filter(|text| *text != x.host()) else { return };
    if let Some((_, Some(port))) = parse_authority(written) {
        out.push(b':');
        write_number(u64::from(port), out);
    }
}

/// Returns whether a client's field is the one that a parameter names: `-` is written `_` there.
fn is_field(parameter: &[u8], field: &[u8]) -> bool {
    parameter.len() == field.len()
        && parameter.iter().zip(field).all(|(wanted, byte)| match byte {
            b'-' => *wanted == b'_',
            byte => *wanted == byte.to_ascii_uppercase(),
        })
}
