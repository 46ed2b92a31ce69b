//! From decoded fields to a [`Head`]: the rules of RFC 9113 sections 8.1.1 to 8.3 and RFC 9114 sections 4.1.2 to
//! 4.3.

use tidegate_codec::connection::parse_length;
use tidegate_codec::{Known, Span};

use super::check::{self, NameClass};
use super::{Head, HeadFault, HeadRules};
use crate::field::DecodedField;
use crate::priority::Priority;

/// The longest name that a list of fields can hold.
const NAME_BYTES_MAX: usize = u16::MAX as usize;

/// What kind of section a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The head of a request.
    Request,
    /// The head of a response, interim ones included.
    Response,
    /// What follows a body.
    Trailers,
}

/// Bytes that are put together while a head is read; the buffers are reused.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Values of the pseudo-header fields.
    pseudo: Vec<u8>,
    /// The values of all `cookie` fields, joined.
    cookies: Vec<u8>,
    /// The composed request line.
    line: Vec<u8>,
}

impl Scratch {
    /// Makes it empty; the buffers keep their capacity.
    pub fn clear(&mut self) {
        let Scratch { pseudo, cookies, line } = self;
        [pseudo, cookies, line].into_iter().for_each(Vec::clear);
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.pseudo.capacity() + self.cookies.capacity() + self.line.capacity()
    }
}

/// Places in `Scratch::pseudo`.
#[derive(Debug, Default)]
struct Pseudo {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    protocol: Option<Span>,
    status: Option<Span>,
}

/// Takes the fields of one section.
#[derive(Debug)]
pub struct Reader<'a> {
    head: &'a mut Head,
    scratch: &'a mut Scratch,
    rules: &'a HeadRules,
    section: Section,
    pseudo: Pseudo,
    /// An ordinary field has been seen.
    in_fields: bool,
    /// The size of the list so far (RFC 9113 section 6.5.2).
    list_bytes: usize,
    fields: u32,
    fault: Option<HeadFault>,
}

impl<'a> Reader<'a> {
    /// A reader that puts a section into `head`, which it clears.
    pub fn new(
        head: &'a mut Head,
        scratch: &'a mut Scratch,
        rules: &'a HeadRules,
        section: Section,
    ) -> Reader<'a> {
        head.clear();
        scratch.pseudo.clear();
        scratch.cookies.clear();
        Reader {
            head,
            scratch,
            rules,
            section,
            pseudo: Pseudo::default(),
            in_fields: false,
            list_bytes: 0,
            fields: 0,
            fault: None,
        }
    }

    /// Takes one field. Once the list is too large, what follows is only counted: the rest of the block has to be
    /// decoded, but costs no memory.
    #[inline]
    pub fn field(&mut self, field: DecodedField<'_>) {
        let (name, value) = (field.name.len(), field.value.len());
        self.list_bytes = self.list_bytes.saturating_add(name).saturating_add(value);
        if self.list_bytes > self.rules.list_bytes_max as usize
            || name.max(value) > self.rules.field_bytes_max as usize
        {
            return self.blame(HeadFault::TooLarge);
        }
        let taken = match field.name.first() {
            Some(b':') => self.pseudo_field(field),
            _ => {
                self.fields = self.fields.saturating_add(1);
                if self.fields > self.rules.fields_max {
                    return self.blame(HeadFault::TooMany);
                }
                self.in_fields = true;
                self.ordinary(field)
            }
        };
        if let Err(fault) = taken {
            self.blame(fault);
        }
    }

    /// Bytes of names and values so far, of those that were not taken as well.
    pub fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// Ends the section.
    ///
    /// # Errors
    /// The first thing that is wrong with it. The head has the rest all the same, for logs.
    pub fn finish(mut self) -> Result<(), HeadFault> {
        let ended = match self.section {
            Section::Request => self.finish_request(),
            Section::Response => self.finish_response(),
            Section::Trailers => Ok(()),
        };
        self.fault.map_or(ended, Err)
    }

    /// The first fault counts, but one about the size comes before others: it is what the client can do about.
    fn blame(&mut self, fault: HeadFault) {
        if matches!(fault, HeadFault::TooLarge | HeadFault::TooMany) {
            self.fault = Some(fault);
        }
        self.fault.get_or_insert(fault);
    }

    #[inline]
    fn ordinary(&mut self, field: DecodedField<'_>) -> Result<(), HeadFault> {
        let DecodedField { known, name, value, .. } = field;
        let class = match field.is_static {
            true => NameClass::Plain,
            false => check::name(name),
        };
        if class == NameClass::Invalid {
            return Err(HeadFault::Name);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(HeadFault::TooLarge);
        }
        // In requests as HTTP/1 has it: other control characters are for handlers to judge.
        let is_right = match self.section {
            Section::Request => check::is_value(value),
            Section::Response | Section::Trailers => check::has_no_controls(value),
        };
        if !is_right || check::has_outer_space(value) {
            return Err(HeadFault::Value);
        }
        let odd = match class {
            NameClass::Underscore => !self.rules.underscores,
            class => class == NameClass::Odd,
        };
        if odd && self.rules.ignore_odd_names {
            self.ignore(name, value);
            return Ok(());
        }
        match known {
            Known::Other if name == b"priority" => {
                self.head.priority = Some(Priority::parse(value));
            }
            Known::Connection
            | Known::ProxyConnection
            | Known::KeepAlive
            | Known::TransferEncoding
            | Known::Upgrade => return Err(HeadFault::ConnectionField),
            Known::Te if value != b"trailers" => return Err(HeadFault::ConnectionField),
            Known::ContentLength if self.section != Section::Trailers => self.length(value)?,
            Known::Cookie if self.section == Section::Request => {
                self.cookie(value);
                return Ok(());
            }
            _ => {}
        }
        self.head.headers.push_as(known, name, value);
        Ok(())
    }

    fn ignore(&mut self, name: &[u8], value: &[u8]) {
        let line = &mut self.scratch.line;
        line.clear();
        line.extend_from_slice(name);
        line.extend_from_slice(b": ");
        line.extend_from_slice(value);
        let place = self.head.headers.push_text(line);
        self.head.ignored.push(place);
    }

    fn length(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        let length = parse_length(value).ok_or(HeadFault::ContentLength)?;
        match self.head.content_length.replace(length) {
            Some(before) if before != length => Err(HeadFault::ContentLength),
            _ => Ok(()),
        }
    }

    fn cookie(&mut self, value: &[u8]) {
        let cookies = &mut self.scratch.cookies;
        if !cookies.is_empty() {
            cookies.extend_from_slice(b"; ");
        }
        cookies.extend_from_slice(value);
    }

    fn pseudo_field(&mut self, field: DecodedField<'_>) -> Result<(), HeadFault> {
        let pseudo = &mut self.pseudo;
        let place = match (self.section, field.name) {
            (Section::Request, b":method") => &mut pseudo.method,
            (Section::Request, b":scheme") => &mut pseudo.scheme,
            (Section::Request, b":authority") => &mut pseudo.authority,
            (Section::Request, b":path") => &mut pseudo.path,
            (Section::Request, b":protocol") if self.rules.extended_connect => &mut pseudo.protocol,
            (Section::Response, b":status") => &mut pseudo.status,
            _ => return Err(HeadFault::PseudoUnknown),
        };
        if self.in_fields {
            return Err(HeadFault::PseudoLate);
        }
        if place.is_some() {
            return Err(HeadFault::PseudoRepeated);
        }
        // Line ends and spaces are kept away from all that is composed of it, even of what is logged only.
        if field.value.is_empty() || !check::is_visible(field.value) {
            return Err(HeadFault::PseudoValue);
        }
        let start = self.scratch.pseudo.len();
        self.scratch.pseudo.extend_from_slice(field.value);
        *place = Some(Span::new(start, self.scratch.pseudo.len()));
        Ok(())
    }

    fn finish_request(&mut self) -> Result<(), HeadFault> {
        let Scratch { pseudo: text, cookies, line } = &mut *self.scratch;
        let of = |place: Option<Span>| place.map(|place| place.of(text));
        let headers = &mut self.head.headers;
        let (method, path) = (of(self.pseudo.method), of(self.pseudo.path));
        let (scheme, authority) = (of(self.pseudo.scheme), of(self.pseudo.authority));
        let protocol = of(self.pseudo.protocol);
        let is_connect = method == Some(b"CONNECT") && protocol.is_none();
        let target = if is_connect { authority } else { path };
        line.clear();
        line.extend_from_slice(method.unwrap_or(b""));
        line.push(b' ');
        line.extend_from_slice(target.unwrap_or(b""));
        line.push(b' ');
        line.extend_from_slice(self.rules.version.as_bytes());
        let place = headers.push_text(line);
        let method_end = place.start as usize + method.map_or(0, <[u8]>::len);
        let target_end = method_end + 1 + target.map_or(0, <[u8]>::len);
        self.head.line = place;
        self.head.method = Span::new(place.start as usize, method_end);
        self.head.target = Span::new(method_end + 1, target_end);
        self.head.scheme = headers.push_text(scheme.unwrap_or(b""));
        self.head.authority = headers.push_text(authority.unwrap_or(b""));
        self.head.protocol = headers.push_text(protocol.unwrap_or(b""));
        if !cookies.is_empty() {
            headers.push_as(Known::Cookie, b"cookie", cookies);
        }
        let host = headers.first(Known::Host);
        let differ = match (host, authority) {
            (Some(host), Some(authority)) => !host.eq_ignore_ascii_case(authority),
            _ => false,
        };
        let has_host = host.is_some_and(|host| !host.is_empty());
        if let (None, Some(authority)) = (host, authority) {
            headers.push_as(Known::Host, b"host", authority);
        }
        let method = method.ok_or(HeadFault::PseudoMissing)?;
        if !check::is_method(method) {
            return Err(HeadFault::PseudoValue);
        }
        match (is_connect, scheme, path) {
            // CONNECT has neither (RFC 9113 section 8.5).
            (true, None, None) => authority.map(|_| ()).ok_or(HeadFault::PseudoMissing)?,
            (true, ..) => return Err(HeadFault::PseudoUnknown),
            (false, Some(scheme), Some(path)) => {
                if protocol.is_some() && method != b"CONNECT" {
                    return Err(HeadFault::PseudoUnknown);
                }
                check_target(method, scheme, path)?;
                if !has_host && authority.is_none() {
                    return Err(HeadFault::PseudoMissing);
                }
            }
            (false, ..) => return Err(HeadFault::PseudoMissing),
        }
        match differ || authority.is_some_and(|authority| authority.contains(&b'@')) {
            true => Err(HeadFault::Host),
            false => Ok(()),
        }
    }

    fn finish_response(&mut self) -> Result<(), HeadFault> {
        let status = self.pseudo.status.ok_or(HeadFault::PseudoMissing)?;
        let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = status.of(&self.scratch.pseudo)
        else {
            return Err(HeadFault::PseudoValue);
        };
        let digit = |byte: &u8| u16::from(byte - b'0');
        let status = digit(a) * 100 + digit(b) * 10 + digit(c);
        // Nothing is upgraded here (RFC 9113 section 8.6).
        if status == 101 {
            return Err(HeadFault::PseudoValue);
        }
        self.head.status = status;
        Ok(())
    }
}

/// Scheme and path of a request that is no plain CONNECT (RFC 9113 section 8.3.1).
fn check_target(method: &[u8], scheme: &[u8], path: &[u8]) -> Result<(), HeadFault> {
    let asterisk = path == b"*" && method == b"OPTIONS";
    match check::is_scheme(scheme) && (path.starts_with(b"/") || asterisk) {
        true => Ok(()),
        false => Err(HeadFault::PseudoValue),
    }
}
