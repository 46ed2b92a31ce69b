//! Comparison of two responses to the same request, without names of servers and times; intended
//! differences have a reason.

use super::client::Response;
use super::requests::{Request, Shape};

/// Fields about the server, the time or the connection.
const LEFT_OUT: [&str; 4] = ["date", "connection", "keep-alive", "expires"];

/// Largest part of a body in a message, in bytes.
const SHOWN_MAX: usize = 160;

/// One difference, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The differing part: `status`, the name of a field, or `body`.
    pub what: String,
    pub nginx: String,
    pub tidegate: String,
}

/// An intended difference.
struct Meant {
    reason: &'static str,
    holds: fn(&Request, &Response, &Response, &Difference) -> bool,
}

/// The differences of `docs/differences.md` that requests of this harness reach.
const MEANT: [Meant; 15] = [
    Meant {
        reason: "a part is served of what is stored, whatever its origin says of ranges",
        holds: |request, nginx, tidegate, _| {
            let asked = request.fields.iter().any(|(name, _)| name == "Range");
            let unsaid = nginx.field("accept-ranges").is_none();
            asked && unsaid && nginx.code() == 200 && tidegate.code() == 206
        },
    },
    Meant {
        reason: "HEAD of an object that is not stored yet is HEAD for the origin, which sends its length",
        holds: |request, nginx, tidegate, difference| {
            let echoed = nginx.field("x-powered-by") == Some("origin");
            let length = difference.what == "content-length" && nginx.code() == tidegate.code();
            request.method == "HEAD" && length && echoed
        },
    },
    Meant {
        reason: "a body is asked for (100) where it is read",
        holds: |_, _, _, difference| difference.what == "(interim)",
    },
    Meant {
        reason: "a `%` without two hexadecimal digits in a host is refused",
        holds: |request, _, tidegate, _| {
            let hexadecimal = |digits: &str| {
                digits.get(..2).is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()))
            };
            let name = request.name.as_deref().unwrap_or_default();
            let whole = name.split('%').skip(1).all(hexadecimal);
            tidegate.code() == 400 && !whole
        },
    },
    Meant {
        reason: "the length of a page that was not sent counts the server's name",
        holds: |request, nginx, tidegate, difference| {
            let number =
                |response: &Response| response.field("content-length")?.parse::<usize>().ok();
            let server = |response: &Response| response.field("server").map(str::len);
            let apart = number(nginx).zip(number(tidegate)).map(|(a, b)| a.abs_diff(b));
            let names = server(nginx).zip(server(tidegate)).map(|(a, b)| a.abs_diff(b));
            difference.what == "content-length" && request.method == "HEAD" && apart == names
        },
    },
    Meant {
        reason: "nginx adds fields to a 416 response twice",
        holds: |_, nginx, _, difference| {
            let once = format!("{0} | {0}", difference.tidegate);
            nginx.code() == 416 && difference.nginx == once
        },
    },
    Meant {
        reason: "nginx names the charset of the file at the page of a 416 response",
        holds: |_, nginx, _, difference| {
            let page = difference.tidegate == "text/html";
            nginx.code() == 416 && difference.what == "content-type" && page
        },
    },
    Meant {
        reason: "a target that is refused is $request_uri all the same",
        // Redirects show it, and conditions on it choose the page.
        holds: |request, _, _, difference| {
            let follows = matches!(difference.what.as_str(), "status" | "location" | "body");
            follows && is_refused(&request.target)
        },
    },
    Meant {
        reason: "a carriage return in `Location` is encoded",
        holds: |request, nginx, _, difference| {
            let odd = request.target.contains("%0d");
            let cut = difference.what == "location" && nginx.field("location").is_some();
            odd && cut && difference.tidegate.contains("%0D")
        },
    },
    Meant {
        reason: "nginx does not cache what has a key longer than proxy_buffer_size",
        holds: |request, _, _, difference| {
            let long = request.target.len() > 3000;
            long && difference.nginx.is_empty() && difference.tidegate == "MISS"
        },
    },
    Meant {
        reason: "nginx passes uwsgi's Status on, though its manual says that it does not",
        holds: |_, nginx, _, difference| {
            let said = nginx.status.split_once(' ').map_or("", |(_, said)| said);
            difference.what == "(field) status" && difference.nginx == said
        },
    },
    Meant {
        reason: "stored responses have ranges unless their origin forbids it",
        holds: |_, nginx, _, difference| {
            let unsaid = nginx.field("accept-ranges").is_none();
            difference.what == "accept-ranges" && difference.tidegate == "bytes" && unsaid
        },
    },
    Meant {
        reason: "the length of a short FastCGI response is known, and compared with gzip_min_length",
        holds: |_, nginx, tidegate, difference| {
            let whats = ["vary", "content-encoding", "etag"];
            let known = tidegate.field("content-length") == Some(&tidegate.body.len().to_string());
            let chunked = unframed(nginx);
            whats.contains(&difference.what.as_str()) && known && chunked
        },
    },
    Meant {
        reason: "a chunked body that is not buffered is passed on in chunks, however it arrives",
        holds: |request, nginx, tidegate, _| {
            let chunked =
                tidegate.body.windows(26).any(|line| line == b"Transfer-Encoding: chunked");
            let counted = nginx.body.windows(16).any(|line| line == b"Content-Length: ");
            matches!(request.shape, Shape::Chunked) && chunked && counted
        },
    },
    Meant {
        reason: "a FastCGI response whole in the first read has a Content-Length",
        holds: |_, nginx, tidegate, difference| {
            matches!(difference.what.as_str(), "transfer-encoding" | "content-length")
                && unframed(nginx)
                && tidegate.field("content-length") == Some(&tidegate.body.len().to_string())
        },
    },
];

/// Whether servers refuse a target (400): it leads out of the root, has a `%` without digits, or a zero byte.
fn is_refused(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let digits = |code: &str| {
        code.get(..2).is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    if path.split('%').skip(1).any(|code| !digits(code) || code.starts_with("00")) {
        return true;
    }
    let decoded = path.replace("%2e", ".").replace("%2f", "/");
    let mut depth = 0i32;
    decoded.split('/').filter(|segment| !matches!(*segment, "" | ".")).any(|segment| {
        depth += if segment == ".." { -1 } else { 1 };
        depth < 0
    })
}

/// A response of unknown length: in chunks, or ended by the close.
fn unframed(response: &Response) -> bool {
    response.field("transfer-encoding") == Some("chunked")
        || response.field("content-length").is_none()
}

/// Returns the differences between two responses, and the reason for each intended one.
pub(super) fn compare(
    request: &Request,
    nginx: &Response,
    tidegate: &Response,
) -> Vec<(Difference, Option<&'static str>)> {
    let mut found = Vec::new();
    let mut note = |what: &str, nginx: String, tidegate: String| {
        found.push(Difference { what: what.to_owned(), nginx, tidegate });
    };
    if nginx.status != tidegate.status {
        note("status", nginx.status.clone(), tidegate.status.clone());
    }
    let (theirs, ours) = (common_fields(nginx), common_fields(tidegate));
    let mut names: Vec<&String> = theirs.iter().chain(&ours).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    for name in names {
        let values = |fields: &[(String, String)]| {
            let values = fields.iter().filter(|(key, _)| key == name);
            values.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" | ")
        };
        let (a, b) = (values(&theirs), values(&ours));
        if a != b {
            let what = if name == "status" { "(field) status" } else { name };
            note(what, a, b);
        }
    }
    if let (Some(a), Some(b)) = (lifetime(nginx), lifetime(tidegate)) {
        if (a - b).abs() > 2 && nginx.field("expires") != tidegate.field("expires") {
            note("expires", format!("{a} s"), format!("{b} s"));
        }
    } else if nginx.field("expires").is_some() != tidegate.field("expires").is_some() {
        let shown = |response: &Response| response.field("expires").unwrap_or("-").to_owned();
        note("expires", shown(nginx), shown(tidegate));
    }
    let (a, b) = (common_text(nginx, &nginx.body), common_text(tidegate, &tidegate.body));
    if a != b {
        let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let line = a[..floor(&a, at)].rfind('\n').map_or(0, |line| line + 1);
        let shown = |text: &str| text[floor(text, line)..floor(text, line + SHOWN_MAX)].to_owned();
        note("body", shown(&a), shown(&b));
    }
    let reason = |difference: &Difference| {
        let meant = MEANT.iter().find(|meant| (meant.holds)(request, nginx, tidegate, difference));
        meant.map(|meant| meant.reason)
    };
    found.into_iter().map(|difference| (difference.clone(), reason(&difference))).collect()
}

/// The last place of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn common_fields(response: &Response) -> Vec<(String, String)> {
    let kept = response.fields.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
    // Lengths of pages that name the server differ as its name does, and lengths of packed bodies as libraries do.
    let measured = response.body.len().to_string();
    let named =
        is_packed(response) || common_text(response, &response.body).as_bytes() != response.body;
    kept.map(|(name, value)| match name.as_str() {
        "content-length" if named && (is_packed(response) || *value == measured) => {
            (name.clone(), "(as it is)".to_owned())
        }
        _ => (name.clone(), common_text(response, value.as_bytes())),
    })
    .collect()
}

fn is_packed(response: &Response) -> bool {
    response.field("content-encoding").is_some()
}

/// Returns a text without parts that must differ: the server's name and version, the client's port, random numbers, and
/// times.
pub(super) fn common_text(response: &Response, bytes: &[u8]) -> String {
    let text = common_words(&String::from_utf8_lossy(bytes));
    match response.port {
        0 => text,
        port => replaced(&text, &format!(r"\b{port}\b"), "PORT"),
    }
}

/// The same for a text of any origin, but for ports.
pub(super) fn common_words(text: &str) -> String {
    let mut text = text.to_owned();
    let rules: [(&str, &str); 10] = [
        // In cookies.
        (r"\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT", "TIME"),
        (r"\b[0-9]{20}\b", "BOUNDARY"),
        (r"tidegate|nginx", "SERVER"),
        (r"SERVER/[0-9][0-9.]*", "SERVER"),
        (r"\b[0-9a-f]{32}\b", "RANDOM"),
        (r"\b1[0-9]{9}(\.[0-9]{3})?\b", "TIME"),
        (r"\b[0-9]\.[0-9]{3}\b", "DURATION"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*", "TIME"),
        (r"\b\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \S{5}", "TIME"),
        (
            r"\w{3}, \d\d \w{3} 20[2-9][5-9] \d\d:\d\d:\d\d GMT|\w+, \d\d-\w{3}-20[2-9][5-9] \d\d:\d\d:\d\d \w+",
            "TIME",
        ),
    ];
    for (pattern, with) in rules {
        text = replaced(&text, pattern, with);
    }
    text
}

/// Whether an expression matches in a text.
pub(super) fn found(text: &str, pattern: &str) -> bool {
    let regex = pcre2::bytes::RegexBuilder::new().build(pattern);
    regex.is_ok_and(|regex| regex.is_match(text.as_bytes()).unwrap_or(false))
}

/// Returns a text with each match of an expression replaced.
pub(super) fn replaced(text: &str, pattern: &str, with: &str) -> String {
    let Ok(regex) = pcre2::bytes::RegexBuilder::new().build(pattern) else {
        return text.to_owned();
    };
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for found in regex.find_iter(text.as_bytes()).flatten() {
        out.push_str(&text[end..found.start()]);
        out.push_str(with);
        end = found.end();
    }
    out.push_str(&text[end..]);
    out
}

/// Seconds from `Date` to `Expires`.
fn lifetime(response: &Response) -> Option<i64> {
    Some(seconds(response.field("expires")?)? - seconds(response.field("date")?)?)
}

/// Seconds since 1970 of a date such as `Mon, 01 Jan 2024 00:00:00 GMT` (RFC 9110 section 5.6.7).
fn seconds(date: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = date.split([' ', ':']).collect();
    let [_, day, month, year, hour, minute, second, "GMT"] = words.as_slice() else { return None };
    let number = |text: &str| text.parse::<i64>().ok();
    let month = MONTHS.find(month)? as i64 / 3;
    // Days are counted from March on, so that leap days come last.
    let (year, month) =
        if month < 2 { (number(year)? - 1, month + 10) } else { (number(year)?, month - 2) };
    let days =
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + number(day)?;
    let clock = number(hour)? * 3600 + number(minute)? * 60 + number(second)?;
    Some((days - 719_469) * 86_400 + clock)
}
