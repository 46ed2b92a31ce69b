//! The keys of a client, and the file in which AWS's tools keep them.

use std::fmt;

/// The section of a credentials file that is read without a name.
pub const PROFILE_DEFAULT: &str = "default";

/// The keys of a client. They are not shown: `Debug` leaves them out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
}

/// Why a credentials file is of no use. It has no part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// The section does not exist.
    NoProfile,
    /// The section has no `aws_access_key_id`.
    NoAccessKey,
    /// The section has no `aws_secret_access_key`.
    NoSecretKey,
    /// A key has bytes that are not printable.
    InvalidKey,
}

impl Credentials {
    /// Makes credentials; `session_token` is that of temporary ones.
    pub fn new(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Credentials {
        Credentials {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: session_token.map(str::to_owned),
        }
    }

    /// Reads a section of a file in the form of AWS's tools: `[name]`, then lines `aws_access_key_id = …`,
    /// `aws_secret_access_key = …` and perhaps `aws_session_token = …`. Lines that begin with `#` or `;` are comments.
    ///
    /// # Errors
    /// See [`CredentialsError`].
    pub fn parse(text: &str, profile: &str) -> Result<Credentials, CredentialsError> {
        let (mut found, mut inside) = (false, false);
        let (mut access_key, mut secret_key, mut session_token) = (None, None, None);
        for line in text.lines().map(str::trim) {
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                let name = section.split(']').next().unwrap_or_default().trim();
                inside = name == profile;
                found |= inside;
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| inside) else { continue };
            let value = Some(value.trim()).filter(|value| !value.is_empty());
            match name.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => access_key = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => session_token = value,
                _ => {}
            }
        }
        if !found {
            return Err(CredentialsError::NoProfile);
        }
        let access_key = access_key.ok_or(CredentialsError::NoAccessKey)?;
        let secret_key = secret_key.ok_or(CredentialsError::NoSecretKey)?;
        let credentials = Credentials::new(access_key, secret_key, session_token);
        if credentials.is_valid() { Ok(credentials) } else { Err(CredentialsError::InvalidKey) }
    }

    /// Returns whether the keys can be sent in a field: they have printable ASCII alone, and none is empty.
    pub fn is_valid(&self) -> bool {
        let is_word =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        // The name of a key is a part of a list in which these separate.
        let is_name = !self.access_key.contains(['/', ',']);
        is_name
            && is_word(&self.access_key)
            && is_word(&self.secret_key)
            && self.session_token.as_deref().is_none_or(is_word)
    }

    /// Returns a text that is equal for equal credentials, and tells nothing about them: their hash.
    pub fn identity(&self) -> String {
        let token = self.session_token.as_deref().unwrap_or_default();
        let parts = [self.access_key.as_str(), self.secret_key.as_str(), token];
        super::payload_hash(parts.join("\n").as_bytes())
    }

    /// Returns the key that names the client.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Returns the token of temporary credentials, for `x-amz-security-token`.
    pub fn session_token(&self) -> Option<&str> {
        self.session_token.as_deref()
    }

    pub(super) fn secret_key(&self) -> &str {
        &self.secret_key
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CredentialsError::NoProfile => "the file has no such section",
            CredentialsError::NoAccessKey => "the section has no \"aws_access_key_id\"",
            CredentialsError::NoSecretKey => "the section has no \"aws_secret_access_key\"",
            CredentialsError::InvalidKey => "a key has letters that keys do not have",
        })
    }
}

impl std::error::Error for CredentialsError {}
