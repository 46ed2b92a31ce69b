//! Errors of a command, in the form of the commercial edition.

use serde_json::{Value, json};

/// A response other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub status: u16,
    /// Code for programs.
    code: &'static str,
    /// Text for people.
    text: String,
}

/// The documentation of the commands.
const MANUAL: &str = "https://nginx.org/en/docs/http/ngx_http_api_module.html";

impl ApiError {
    pub(super) fn new(status: u16, code: &'static str, text: impl Into<String>) -> ApiError {
        ApiError { status, code, text: text.into() }
    }

    pub(super) fn no_path() -> ApiError {
        ApiError::new(404, "PathNotFound", "path not found")
    }

    pub(super) fn no_method() -> ApiError {
        ApiError::new(405, "MethodNotSupported", "method not supported")
    }

    pub(super) fn no_server() -> ApiError {
        ApiError::new(404, "UpstreamServerNotFound", "upstream server not found")
    }

    pub(super) fn value(&self, request_id: &str) -> Value {
        let ApiError { status, code, text } = self;
        json!({
            "error": { "status": status, "text": text, "code": code },
            "request_id": request_id,
            "href": MANUAL,
        })
    }
}
