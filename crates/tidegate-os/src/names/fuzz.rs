//! Properties that hold for any names; called by the fuzzers.

use super::{check, is_own, steps};

/// A directory as a configuration writes it.
const ROOT: &str = "C:/www";

/// Appends bytes to a root as a request does. A model of the system drops what Windows drops and opens the remaining
/// name: if that differs from the requested one, one of the two checks must refuse. A name that passes both must be its
/// own name, and a plain name must pass.
pub fn fuzz_names(data: &[u8]) {
    for from in [ROOT.len(), ROOT.len() + 1, 0] {
        let path = [ROOT.as_bytes(), b"/", data].concat();
        let checked = check(&path, from);
        let opened = opened_by_model(data);
        let passed = checked.is_ok() && is_own(&path, from, &format!(r"\\?\C:\www{opened}"));
        let names = || data.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        if passed {
            let asked: String =
                names().map(|name| format!(r"\{}", String::from_utf8_lossy(name))).collect();
            assert_eq!(asked, opened, "served under another name");
            // Other spellings of the same file are found, whatever the model.
            let other = format!(r"\\?\C:\www{}", swap_case(&opened));
            assert!(opened == swap_case(&opened) || !is_own(&path, from, &other));
        }
        let plain = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
        let divided = !data.starts_with(b"/") && !data.windows(2).any(|pair| pair == b"//");
        if divided
            && names().all(|name| name.len() < 256 && name.iter().all(plain))
            && names().all(|name| name.contains(&b'-'))
            && path.len() < super::PATH_BYTES_MAX
        {
            assert!(passed, "a plain name was refused");
        }
        let rebuilt: Vec<&[u8]> = steps(&path, from).map(|(_, name)| name).collect();
        assert!(rebuilt.iter().all(|name| !name.is_empty() && !name.contains(&b'/')));
        assert!(steps(&path, from).all(|(way, name)| path.starts_with(way) && way.ends_with(name)));
    }
    // As a whole path, with any part of it written by the configuration: nothing may panic.
    let from = data.first().map_or(0, |byte| usize::from(*byte));
    let _ = (check(data, from), steps(data, from).count());
    let _ = is_own(data, from, &String::from_utf8_lossy(data));
}

/// Returns the name that Windows would open: streams are parts of their file, a backslash divides names, dots and
/// spaces at the end are dropped, `.` stays and `..` goes up, cases are equal (the stored one is lower case).
fn opened_by_model(names: &[u8]) -> String {
    let text = String::from_utf8_lossy(names);
    let mut way: Vec<String> = Vec::new();
    for name in text.split(['/', '\\']) {
        match name {
            "" | "." => {}
            ".." => drop(way.pop()),
            name => {
                let file = name.split(':').next().unwrap_or_default();
                way.push(file.trim_end_matches(['.', ' ']).to_lowercase());
            }
        }
    }
    way.iter().map(|name| format!(r"\{name}")).collect()
}

fn swap_case(text: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c };
    text.chars().map(swap).collect()
}
