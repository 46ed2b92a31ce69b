//! Variables of the request: target, fields, cookies, arguments, body, files.

use tidegate_codec::{Known, cookie, request};
use tidegate_core::exchange::{Exchange, PathSource};
use tidegate_core::variables::{Changeable, Value, Variable};

use super::{put, put_fields, put_number};

pub(super) const COUNT: usize = VARIABLES.len();

pub(super) const VARIABLES: &[Variable] = &[
    Variable::fixed("http_host", "`Host` field of the request.", |x, out| {
        put(x.request.header(Known::Host), out)
    }),
    Variable::fixed("http_user_agent", "`User-Agent` field of the request.", |x, out| {
        known(x, Known::UserAgent, b", ", out)
    }),
    Variable::fixed("http_referer", "`Referer` field of the request.", |x, out| {
        known(x, Known::Referer, b", ", out)
    }),
    Variable::fixed("http_via", "`Via` fields of the request, joined by `, `.", |x, out| {
        known(x, Known::Via, b", ", out)
    }),
    Variable::fixed(
        "http_x_forwarded_for",
        "`X-Forwarded-For` fields of the request, joined by `, `.",
        |x, out| known(x, Known::XForwardedFor, b", ", out),
    ),
    Variable::fixed("http_cookie", "`Cookie` fields of the request, joined by `; `.", |x, out| {
        known(x, Known::Cookie, b"; ", out)
    }),
    Variable::prefixed(
        "http_",
        "Field of the request's head of this name, in lower case and with underscores \
            for hyphens.",
        |x, name, out| put_fields(&x.request.head.headers, name, out),
    ),
    Variable::prefixed("cookie_", "Cookie of this name.", |x, name, out| {
        put(cookie::find(&x.request.head.headers, name), out)
    }),
    Variable::prefixed("arg_", "Argument of this name in the query, as sent.", |x, name, out| {
        put(argument(&x.request.args, name), out)
    }),
    Variable::fixed("content_length", "`Content-Length` field of the request.", content_length),
    Variable::fixed("content_type", "`Content-Type` field of the request.", |x, out| {
        known(x, Known::ContentType, b", ", out)
    }),
    Variable::fixed(
        "host",
        "Host of the request line, else of the `Host` field, else the name of the \
            server; in lower case and without a port.",
        |x, out| put(Some(x.host()), out),
    ),
    Variable::fixed(
        "request_port",
        "Port of the request's host if it names one, else empty.",
        |x, out| request_port(x).is_none_or(|port| put_number(u64::from(port), out)),
    ),
    Variable::fixed(
        "is_request_port",
        "`:` if `$request_port` is not empty, else empty.",
        |x, out| put(Some(if request_port(x).is_some() { b":" } else { b"" }), out),
    ),
    Variable::fixed("request", "Request line as received.", |x, out| {
        put(non_empty(x.request.head.line()), out)
    }),
    Variable::fixed(
        "request_uri",
        "Target of the request as received, with its query.",
        |x, out| put(non_empty(x.request.target()), out),
    ),
    Variable::fixed("request_method", "Method of the request.", request_method),
    Variable::fixed("uri", "Path of the request, normalized; internal redirects change it.", path),
    Variable::fixed("document_uri", "Path of the request, normalized: the same as `$uri`.", path),
    Variable {
        name: "args",
        doc: "Query of the request, without the question mark; `set` changes it.",
        value: Value::Fixed(|x, out| put(non_empty(&x.request.args), out)),
        change: Changeable::By(|x, value| {
            x.request.args.clear();
            x.request.args.extend_from_slice(value);
            // The received target does not have them: gateways make one of path and args.
            x.request.source = PathSource::Server;
        }),
    },
    Variable::fixed(
        "query_string",
        "Query of the request, without the question mark.",
        |x, out| put(non_empty(&x.request.args), out),
    ),
    Variable::fixed("is_args", "`?` if the request has a query, else empty.", |x, out| {
        put(Some(if x.request.args.is_empty() { b"" } else { b"?" }), out)
    }),
    Variable::fixed(
        "remote_user",
        "User's name in the `Authorization` field (Basic).",
        remote_user,
    ),
    Variable::fixed("document_root", "Value of `root` or `alias` for this request.", |x, out| {
        tidegate_core::file_path::append_root(x, out);
        true
    }),
    Variable::fixed(
        "realpath_root",
        "Value of `root` or `alias` for this request, with symbolic links resolved.",
        realpath_root,
    ),
    Variable::fixed(
        "request_filename",
        "Path of the file for the request, from `root` or `alias` and the URI.",
        |x, out| match tidegate_core::file_path::map(x) {
            Some(path) => put(Some(&path), out),
            None => false,
        },
    ),
    Variable::fixed("request_body", "Request's body, where it was read into memory.", request_body),
    Variable::fixed(
        "request_body_file",
        "Name of the temporary file with the request's body.",
        request_body_file,
    ),
    Variable::fixed("request_length", "Bytes of the request: line, head and body.", request_length),
    Variable::fixed(
        "request_id",
        "Identifier of the request: 32 random hexadecimal digits.",
        request_id,
    ),
];

/// Appends the length of head and body as received; the body counts nothing in a subrequest, as in nginx.
fn request_length(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let of_body = if x.is_subrequest() { 0 } else { x.client.body_bytes() };
    put_number(x.outcome.request_length + of_body, out)
}

fn non_empty(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty()).then_some(text)
}

/// Appends all values of a well-known field, joined.
fn known(x: &mut Exchange, name: Known, divider: &[u8], out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for value in x.request.head.headers.all(name) {
        if found {
            out.extend_from_slice(divider);
        }
        found = true;
        out.extend_from_slice(value);
    }
    found
}

/// Returns the value of an argument, undecoded; names are compared without regard to case.
fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    args.split(|byte| *byte == b'&').find_map(|pair| {
        let (key, value) = pair.split_at_checked(name.len())?;
        if key.eq_ignore_ascii_case(name) { value.strip_prefix(b"=") } else { None }
    })
}

fn content_length(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    match (x.request.header(Known::ContentLength), x.request.body.stored()) {
        (Some(text), _) => put(Some(text), out),
        // A chunked body has a length once it has been read.
        (None, Some(stored)) => put_number(stored.length, out),
        (None, None) => false,
    }
}

/// Returns the port with the host in the target, else in the `Host` field.
fn request_port(x: &Exchange) -> Option<u16> {
    request::parse_authority(x.request.head.host_text()?)?.1
}

fn request_method(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    put(non_empty(x.method_name()), out)
}

fn path(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&x.request.path);
    !x.request.path.is_empty() || !x.request.target().is_empty()
}

fn remote_user(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let field = x.request.header(Known::Authorization);
    let user = field.and_then(tidegate_core::credentials::basic).map(|(user, _)| user);
    put(user.as_deref(), out)
}

fn realpath_root(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let mut root = Vec::new();
    tidegate_core::file_path::append_root(x, &mut root);
    let path = tidegate_os::path::of(&root);
    match tidegate_os::path::real(path) {
        Ok(real) => put(Some(real.as_os_str().as_encoded_bytes()), out),
        Err(error) => {
            let (path, error) = (path.display(), tidegate_os::os_error(&error));
            x.log(
                tidegate_core::Level::Crit,
                format_args!("realpath() \"{path}\" failed ({error})"),
            );
            false
        }
    }
}

/// Appends the body where it is in memory.
fn request_body(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let Some(stored) = x.request.body.stored() else { return false };
    if stored.file.is_some() || stored.memory.is_empty() {
        return false;
    }
    stored.memory.iter().for_each(|bytes| out.extend_from_slice(bytes));
    true
}

fn request_body_file(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    let path = x.request.body.stored().and_then(|stored| stored.path.as_ref());
    put(path.map(|path| path.as_os_str().as_encoded_bytes()), out)
}

fn request_id(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    put(Some(x.request.made_id().as_bytes()), out)
}
