//! The contexts of directives.

use bitflags::bitflags;

bitflags! {
    /// A set of contexts in which a directive is allowed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Contexts: u16 {
        /// Outside of every block.
        const MAIN = 1;
        /// `events { }`
        const EVENTS = 1 << 1;
        /// `http { }`
        const HTTP = 1 << 2;
        /// `server { }` in `http`
        const SERVER = 1 << 3;
        /// `location { }`
        const LOCATION = 1 << 4;
        /// `if { }` in `server`
        const SERVER_IF = 1 << 5;
        /// `if { }` in `location`
        const LOCATION_IF = 1 << 6;
        /// `limit_except { }`
        const LIMIT_EXCEPT = 1 << 7;
        /// `upstream { }` in `http`
        const UPSTREAM = 1 << 8;
        /// `stream { }`
        const STREAM = 1 << 9;
        /// `server { }` in `stream`
        const STREAM_SERVER = 1 << 10;
        /// `upstream { }` in `stream`
        const STREAM_UPSTREAM = 1 << 11;
        /// `mail { }`
        const MAIL = 1 << 12;
        /// `server { }` in `mail`
        const MAIL_SERVER = 1 << 13;
        /// `acme_issuer { }`
        const ACME_ISSUER = 1 << 14;
        /// `otel_exporter { }`
        const OTEL_EXPORTER = 1 << 15;

        /// `http`, `server`
        const HTTP_SERVER = Self::HTTP.bits() | Self::SERVER.bits();
        /// `http`, `server`, `location`: most directives
        const HTTP_SERVER_LOCATION = Self::HTTP_SERVER.bits() | Self::LOCATION.bits();
        /// `http`, `server`, `location`, `if in location`
        const HTTP_SERVER_LOCATION_IF = Self::HTTP_SERVER_LOCATION.bits() | Self::LOCATION_IF.bits();
        /// `server`, `location`
        const SERVER_LOCATION = Self::SERVER.bits() | Self::LOCATION.bits();
        /// `server`, `location` and `if` in both: the rewrite directives
        const REWRITE = Self::SERVER_LOCATION.bits() | Self::SERVER_IF.bits() | Self::LOCATION_IF.bits();
        /// `stream`, `server` in it
        const STREAM_AND_SERVER = Self::STREAM.bits() | Self::STREAM_SERVER.bits();
        /// `http`, `stream`: directives that both have
        const HTTP_STREAM = Self::HTTP.bits() | Self::STREAM.bits();
        /// `mail`, `server` in it
        const MAIL_AND_SERVER = Self::MAIL.bits() | Self::MAIL_SERVER.bits();
        /// Everywhere
        const ANY = u16::MAX;
    }
}

/// The name of each single context, as in nginx's documentation.
const NAMES: [(Contexts, &str); 16] = [
    (Contexts::MAIN, "main"),
    (Contexts::EVENTS, "events"),
    (Contexts::HTTP, "http"),
    (Contexts::SERVER, "server"),
    (Contexts::LOCATION, "location"),
    (Contexts::SERVER_IF, "if in server"),
    (Contexts::LOCATION_IF, "if in location"),
    (Contexts::LIMIT_EXCEPT, "limit_except"),
    (Contexts::UPSTREAM, "upstream"),
    (Contexts::STREAM, "stream"),
    (Contexts::STREAM_SERVER, "server in stream"),
    (Contexts::STREAM_UPSTREAM, "upstream in stream"),
    (Contexts::MAIL, "mail"),
    (Contexts::MAIL_SERVER, "server in mail"),
    (Contexts::ACME_ISSUER, "acme_issuer"),
    (Contexts::OTEL_EXPORTER, "otel_exporter"),
];

impl Contexts {
    /// Returns the contexts for messages: `http, server, location`; `any` for all; `nowhere` for none.
    pub fn describe(self) -> String {
        if self.contains(Contexts::ANY) {
            return "any".to_owned();
        }
        let names: Vec<&str> = NAMES
            .iter()
            .filter(|(context, _)| self.contains(*context))
            .map(|(_, name)| *name)
            .collect();
        if names.is_empty() { "nowhere".to_owned() } else { names.join(", ") }
    }
}
