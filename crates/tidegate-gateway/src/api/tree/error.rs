//! Errors of requests for the tree, in the form of Angie's API.

use serde_json::{Value, json};

/// A response other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeError {
    pub(super) status: u16,
    /// The reason phrase; `None` for nginx's.
    pub(super) reason: Option<&'static [u8]>,
    /// Code for programs.
    code: &'static str,
    /// Text for people.
    description: String,
}

impl TreeError {
    /// No object has the path.
    pub(super) fn no_path(path: &str) -> TreeError {
        let description = format!("Requested API entity \"{path}\" doesn't exist.");
        TreeError { status: 404, reason: None, code: "PathNotFound", description }
    }

    /// The tree is only read.
    pub(super) fn no_method(method: &str, path: &str) -> TreeError {
        let description =
            format!("The {method} method is not allowed for the requested API entity \"{path}\".");
        let reason = Some(&b"Method Not Allowed"[..]);
        TreeError { status: 405, reason, code: "MethodNotAllowed", description }
    }

    pub(super) fn value(&self) -> Value {
        json!({ "error": self.code, "description": self.description })
    }
}
