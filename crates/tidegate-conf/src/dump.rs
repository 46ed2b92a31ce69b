//! The output of `nginx -T`.

use std::borrow::Cow;

use crate::source::SourceMap;

/// Returns all files, each once and in order of reading, under a line with its name.
pub fn dump(sources: &SourceMap) -> Vec<u8> {
    let mut text = Vec::new();
    for (_, file) in sources.files() {
        if file.path().is_none() {
            continue;
        }
        text.extend_from_slice(format!("# configuration file {}:\n", file.name()).as_bytes());
        without_keys(file.bytes(), &mut text, |_, out| out.extend_from_slice(SHOWN));
        text.push(b'\n');
    }
    text
}

/// Returns a word of a configuration as it is shown: without its key, if it is a parameter with one.
pub fn without_key(word: Cow<'_, str>) -> Cow<'_, str> {
    let secret = SECRETS.iter().find(|secret| word.as_bytes().starts_with(secret));
    match secret.and_then(|secret| word.get(..secret.len())) {
        Some(name) => Cow::Owned(format!("{name}***")),
        None => word,
    }
}

/// What a parameter with a key begins with: `*_cache_tier` has them.
const SECRETS: [&[u8]; 3] = [b"access_key=", b"secret_key=", b"session_token="];
/// What is shown in the place of a key.
const SHOWN: &[u8] = b"***";

/// Returns an excerpt with a star for each byte of a key.
pub(crate) fn starred(excerpt: String) -> String {
    let mut out = Vec::with_capacity(excerpt.len());
    let stars = |key: &[u8], out: &mut Vec<u8>| out.resize(out.len() + key.len(), b'*');
    without_keys(excerpt.as_bytes(), &mut out, stars);
    // cannot fail: keys end at letters of ASCII
    String::from_utf8(out).unwrap_or_default()
}

/// Writes a text as it is, but for keys, which `show` writes: an output of `-T` is what people show to others.
fn without_keys(all: &[u8], out: &mut Vec<u8>, show: impl Fn(&[u8], &mut Vec<u8>)) {
    let is_between = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';');
    let find = |secret: &[u8], from: usize| {
        let at = all[from..].windows(secret.len()).position(|window| window == secret)?;
        Some(from + at)
    };
    // Each word is searched for once: behind a found one only when that is passed.
    let mut next = SECRETS.map(|secret| find(secret, 0));
    let mut text = all;
    loop {
        let from = all.len() - text.len();
        for (next, secret) in next.iter_mut().zip(SECRETS) {
            if next.is_some_and(|at| at < from) {
                *next = find(secret, from);
            }
        }
        let found =
            next.iter().zip(SECRETS).filter_map(|(at, secret)| Some(((*at)?, secret.len())));
        let Some((at, length)) = found.min() else { return out.extend_from_slice(text) };
        let before = (at > from).then(|| all[at - 1]);
        let end = at - from + length;
        out.extend_from_slice(&text[..end]);
        text = &text[end..];
        if before.is_some_and(|byte| !is_between(byte)) {
            // A part of another word, such as `$arg_secret_key=`.
            continue;
        }
        // Up to the closing quote, where the value or the whole parameter is in quotes.
        let quote = text.first().filter(|byte| matches!(byte, b'"' | b'\'')).copied();
        let skipped = usize::from(quote.is_some());
        let quote = quote.or(before.filter(|byte| matches!(byte, b'"' | b'\'')));
        let end = text.iter().skip(skipped).position(|byte| match quote {
            Some(quote) => *byte == quote,
            None => byte.is_ascii_whitespace() || *byte == b';',
        });
        out.extend_from_slice(&text[..skipped]);
        let end = end.map_or(text.len(), |end| skipped + end);
        show(&text[skipped..end], out);
        text = &text[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, starred, without_keys};

    #[test]
    fn keys_are_not_shown() {
        let table = [
            (
                "proxy_cache_tier t s3://b secret_key=a/b+= region=eu;",
                "proxy_cache_tier t s3://b secret_key=*** region=eu;",
            ),
            ("access_key=A secret_key=B;", "access_key=*** secret_key=***;"),
            ("x secret_key='a b' c;", "x secret_key='***' c;"),
            ("x \"secret_key=a b\" c;", "x \"secret_key=***\" c;"),
            ("x secret_key=a\n session_token=b;\n}", "x secret_key=***\n session_token=***;\n}"),
            ("if ($arg_secret_key= 1) {}", "if ($arg_secret_key= 1) {}"),
            ("secret_key=", "secret_key=***"),
            ("return 200 a;", "return 200 a;"),
        ];
        for (text, expected) in table {
            let mut shown = Vec::new();
            without_keys(text.as_bytes(), &mut shown, |_, out| out.extend_from_slice(SHOWN));
            assert_eq!(String::from_utf8_lossy(&shown), expected);
            assert_eq!(starred(text.to_owned()).len(), text.len());
        }
    }
}
