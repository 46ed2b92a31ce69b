//! Errors of the operating system as texts.

use std::io;

/// Formats an error as nginx prints it: number and text, `2: No such file or directory`. Errors that the operating
/// system did not raise have their text alone.
pub fn os_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text).to_owned();
            format!("{code}: {text}")
        }
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::os_error;

    #[test]
    fn an_error_has_its_number_first() {
        let missing = io::Error::from_raw_os_error(2);
        let text = os_error(&missing);
        assert!(text.starts_with("2: ") && !text.contains("os error"), "{text}");
        assert_eq!(os_error(&io::Error::other("own")), "own");
    }
}
