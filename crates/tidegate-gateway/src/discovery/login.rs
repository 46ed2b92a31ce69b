//! How this server names itself to an engine: by a token of Consul, or by user and password of etcd, which are exchanged for a
//! token that ends.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// The path of etcd's question for a token.
pub(super) const AUTHENTICATE: &str = "/v3/auth/authenticate";
/// Bytes of the largest response with a token.
pub(super) const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// The login of one engine.
pub(super) enum Login {
    /// A token of Consul (`X-Consul-Token`).
    Consul(String),
    /// A user of etcd.
    Etcd {
        user: String,
        password: String,
        /// The token of the last login, until it is refused.
        token: Mutex<Option<String>>,
    },
}

impl Login {
    /// Reads a token.
    ///
    /// # Errors
    /// In words: it is none.
    pub(super) fn consul(text: &[u8]) -> Result<Login, &'static str> {
        let token = line(text)?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has no spaces and no letters outside of ASCII");
        }
        Ok(Login::Consul(token.to_owned()))
    }

    /// Reads `USER:PASSWORD`.
    ///
    /// # Errors
    /// In words: it has another form.
    pub(super) fn etcd(text: &[u8]) -> Result<Login, &'static str> {
        let form = "expected `USER:PASSWORD`";
        let (user, password) = line(text)?.split_once(':').ok_or(form)?;
        if user.is_empty() || password.is_empty() {
            return Err(form);
        }
        let (user, password) = (user.to_owned(), password.to_owned());
        Ok(Login::Etcd { user, password, token: Mutex::default() })
    }

    /// Returns the name and the value of the field that a request gets.
    pub(super) fn field(&self) -> Option<(&'static str, String)> {
        match self {
            Login::Consul(token) => Some(("X-Consul-Token", token.clone())),
            Login::Etcd { token, .. } => Some(("Authorization", lock(token).clone()?)),
        }
    }

    /// Returns the body of the question for a token, where one is needed.
    pub(super) fn question(&self) -> Option<String> {
        let Login::Etcd { user, password, token } = self else { return None };
        let is_missing = lock(token).is_none();
        is_missing.then(|| json!({ "name": user, "password": password }).to_string())
    }

    /// Takes over the response to the question for a token.
    ///
    /// # Errors
    /// It has none: the reason in words.
    pub(super) fn take_over(&self, status: u16, body: &[u8]) -> Result<(), String> {
        let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
        if status != 200 {
            let reason = parsed["message"].as_str().unwrap_or("no reason");
            let reason: String = reason.chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(format!("the login is refused with HTTP status {status}: {reason}"));
        }
        let new = parsed["token"].as_str();
        let new = new.filter(|new| !new.is_empty() && new.bytes().all(|b| b.is_ascii_graphic()));
        let new = new.ok_or_else(|| "the response to the login has no token".to_owned())?;
        if let Login::Etcd { token, .. } = self {
            *lock(token) = Some(new.to_owned());
        }
        Ok(())
    }

    /// Forgets a token that was refused; returns whether there is another one to be had.
    pub(super) fn refused(&self) -> bool {
        match self {
            Login::Consul(_) => false,
            Login::Etcd { token, .. } => lock(token).take().is_some(),
        }
    }
}

/// Shows no secrets.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Returns the only line of a text.
fn line(text: &[u8]) -> Result<&str, &'static str> {
    let text = str::from_utf8(text).map_err(|_| "it is not UTF-8")?.trim();
    match text {
        "" => Err("it is empty"),
        text if text.contains(char::is_control) => Err("it has more than one line"),
        text => Ok(text),
    }
}

fn lock(token: &Mutex<Option<String>>) -> MutexGuard<'_, Option<String>> {
    token.lock().unwrap_or_else(PoisonError::into_inner)
}
