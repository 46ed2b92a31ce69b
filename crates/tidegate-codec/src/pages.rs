//! The built-in error pages, byte for byte as nginx sends them except for the product's name.

#[cfg(test)]
mod tests;

/// A comment that makes a page larger than the size below which old browsers show a page of their own
/// (directive `msie_padding`).
const PADDING_LINE: &str = "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n";
const PADDING_LINES: usize = 6;

/// Appends the page for a status; returns false when there is none, so that the response has no body.
///
/// `product` is the line below the rule: name, or name and version with `server_tokens on`. `padding` is for
/// the browsers of `msie_padding`, and applies from 400 on.
pub fn write_page(status: u16, product: &[u8], padding: bool, out: &mut Vec<u8>) -> bool {
    let Some((title, heading, detail)) = texts(status) else { return false };
    for part in ["<html>\r\n<head><title>", title, "</title></head>\r\n<body>\r\n<center><h1>"] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(heading.as_bytes());
    out.extend_from_slice(b"</h1></center>\r\n");
    if !detail.is_empty() {
        out.extend_from_slice(b"<center>");
        out.extend_from_slice(detail.as_bytes());
        out.extend_from_slice(b"</center>\r\n");
    }
    out.extend_from_slice(b"<hr><center>");
    out.extend_from_slice(product);
    out.extend_from_slice(b"</center>\r\n</body>\r\n</html>\r\n");
    if padding && status >= 400 {
        for _ in 0..PADDING_LINES {
            out.extend_from_slice(PADDING_LINE.as_bytes());
        }
    }
    true
}

/// Returns title, heading, and a line below it.
fn texts(status: u16) -> Option<(&'static str, &'static str, &'static str)> {
    let special = match status {
        494 => ("400 Request Header Or Cookie Too Large", "Request Header Or Cookie Too Large"),
        495 => ("400 The SSL certificate error", "The SSL certificate error"),
        496 => ("400 No required SSL certificate was sent", "No required SSL certificate was sent"),
        497 => (
            "400 The plain HTTP request was sent to HTTPS port",
            "The plain HTTP request was sent to HTTPS port",
        ),
        _ => ("", ""),
    };
    if !special.0.is_empty() {
        return Some((special.0, "400 Bad Request", special.1));
    }
    let title = match status {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 | 498 | 499 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    };
    Some((title, title, ""))
}
