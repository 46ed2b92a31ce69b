//! The core module's variables, in three tables: request, response, connection and server.

mod connection;
mod request;
mod response;
#[cfg(test)]
mod tests;

use tidegate_core::variables::Variable;

pub(crate) use connection::SHARED;

/// All variables of requests.
pub(super) const VARIABLES: &[Variable] = &joined::<COUNT>(&[
    request::VARIABLES,
    response::VARIABLES,
    connection::VARIABLES,
    connection::SHARED,
]);

const COUNT: usize =
    request::COUNT + response::COUNT + connection::COUNT + connection::SHARED.len();

/// Joins tables with `N` rows in all.
pub(crate) const fn joined<const N: usize>(tables: &[&[Variable]]) -> [Variable; N] {
    let mut all = [const { Variable::fixed("", "", |_, _| false) }; N];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            let Variable { name, doc, value, change } = &tables[table][row];
            all[at] = Variable { name, doc, value: *value, change: *change };
            at += 1;
            row += 1;
        }
        table += 1;
    }
    all
}

/// Appends an optional text; returns whether there is one.
pub(crate) fn put(text: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    match text {
        Some(text) => {
            out.extend_from_slice(text);
            true
        }
        None => false,
    }
}

/// Appends a number.
pub(crate) fn put_number(number: u64, out: &mut Vec<u8>) -> bool {
    tidegate_codec::range::write_number(number, out);
    true
}

/// Appends milliseconds as seconds with three decimals.
pub(crate) fn put_seconds(millis: u64, out: &mut Vec<u8>) -> bool {
    put_number(millis / 1000, out);
    let rest = millis % 1000;
    let digit = |value: u64| b'0' + (value % 10) as u8;
    out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    true
}

/// Appends all values of fields whose names match a variable's suffix (`user_agent`), joined.
fn put_fields(headers: &tidegate_codec::Headers, suffix: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut found = false;
    let divider: &[u8] = if suffix == b"cookie" { b"; " } else { b", " };
    for (_, name, value) in headers.iter() {
        if name.len() != suffix.len() || !same_name(name, suffix) {
            continue;
        }
        if found {
            out.extend_from_slice(divider);
        }
        found = true;
        out.extend_from_slice(value);
    }
    debug_assert!(found || out.len() == start);
    found
}

/// Returns whether a field's name matches a variable's suffix: `User-Agent` matches `user_agent`.
fn same_name(name: &[u8], suffix: &[u8]) -> bool {
    name.iter().zip(suffix).all(|(letter, wanted)| match letter {
        b'-' => *wanted == b'_',
        letter => letter.to_ascii_lowercase() == *wanted,
    })
}
