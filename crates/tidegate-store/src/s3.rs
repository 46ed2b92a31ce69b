//! What a client of an S3-compatible store has to compute: signatures, credentials, paths, error codes. No I/O, no clock.
//!
//! ```
//! use tidegate_store::s3::{Credentials, Request, authorization, encode_path, payload_hash};
//!
//! let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", "secret", None);
//! let hash = payload_hash(b"");
//! let fields = [("host", "127.0.0.1:8333"), ("x-amz-content-sha256", &hash), ("x-amz-date", "20130524T000000Z")];
//! let request = Request {
//!     method: "GET",
//!     path: &encode_path("/bucket/a b"),
//!     query: "",
//!     fields: &fields,
//!     payload_hash: &hash,
//!     region: "us-east-1",
//!     time: "20130524T000000Z",
//! };
//! assert!(authorization(&request, &credentials).starts_with("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"));
//! ```

mod credentials;
mod sign;
#[cfg(test)]
mod tests;

pub use credentials::{Credentials, CredentialsError, PROFILE_DEFAULT};
pub use sign::{Request, authorization, payload_hash};

/// Bytes of an error's text that are searched for its code.
pub const ERROR_BYTES_MAX: usize = 4096;
/// Bytes of the longest code, such as `InvalidAccessKeyId`.
const CODE_BYTES_MAX: usize = 64;

/// Returns a path in the form in which it is sent and signed: all bytes but the unreserved ones (RFC 3986 section 2.3) and
/// `/` as `%` and two upper-case digits.
pub fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    out
}

/// Returns the code of an error's text: what the first `<Code>` of its first [`ERROR_BYTES_MAX`] bytes contains, if that is a
/// word of letters and digits. The text is not parsed as XML, so that nothing in it is expanded.
pub fn error_code(text: &[u8]) -> Option<&str> {
    const OPEN: &[u8] = b"<Code>";
    let text = text.get(..ERROR_BYTES_MAX).unwrap_or(text);
    let begin = text.windows(OPEN.len()).position(|window| window == OPEN)? + OPEN.len();
    let rest = text.get(begin..)?;
    let end = rest.iter().take(CODE_BYTES_MAX + 1).position(|byte| *byte == b'<')?;
    let code = str::from_utf8(rest.get(..end)?).ok()?;
    (!code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(code)
}
