//! The limits of the client, each with its reason.

use std::time::Duration;

/// Bytes of a response's body. A chain of ten certificates with RSA keys has 25 KB; a directory 1 KB.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a URL that a server names. Those of known authorities have less than 200.
pub(crate) const URL_BYTES_MAX: usize = 2048;
/// Bytes of a nonce. Those of known authorities have less than 60.
pub(crate) const NONCE_BYTES_MAX: usize = 256;
/// Bytes of a token. RFC 8555 section 8.3 wants at least 22.
pub(crate) const TOKEN_BYTES_MAX: usize = 256;
/// Bytes of a text of the server that is kept for a log.
pub(crate) const TEXT_BYTES_MAX: usize = 512;
/// Nonces that are kept. One is used at a time, and each response brings another.
pub(crate) const NONCES_MAX: usize = 8;
/// Identifiers of a certificate: the limit of Let's Encrypt, the largest authority.
pub const IDENTIFIERS_MAX: usize = 100;
/// Subproblems of a problem that are kept: one for each identifier.
pub(crate) const SUBPROBLEMS_MAX: usize = IDENTIFIERS_MAX;
/// Challenges of an authorization that are looked at. Known authorities offer up to five.
pub(crate) const CHALLENGES_MAX: usize = 32;
/// Certificates of a chain.
pub(crate) const CHAIN_MAX: usize = 10;
/// `Link` fields of a response that are looked at.
pub(crate) const LINKS_MAX: usize = 32;
/// Alternate chains that are downloaded in search of the preferred one.
pub(crate) const ALTERNATES_MAX: usize = 8;
/// Contacts of an account.
pub const CONTACTS_MAX: usize = 10;
/// Profiles of a directory that are kept.
pub(crate) const PROFILES_MAX: usize = 64;

/// Nonces that may be refused in a row before a request has failed. With Pebble's default, a server that refuses 5 % of
/// them, all are refused in one of 10^10 requests.
pub(crate) const BAD_NONCES_MAX: u32 = 8;
/// Pages of an account's list of orders, and orders, that are searched for one whose URL was lost.
pub(crate) const ORDER_PAGES_MAX: usize = 64;
/// See [`ORDER_PAGES_MAX`].
pub(crate) const ORDERS_SEARCHED_MAX: usize = 128;
/// Responses that fail in a row before an order is given up: with the pauses between them more than two hours. Requests
/// without a response do not count.
pub(crate) const FAILED_RESPONSES_MAX: u32 = 12;
/// Times that an order is looked at before the client rests: with the pauses between them more than an hour.
pub(crate) const POLLS_MAX: u32 = 120;

/// Orders of an issuer that are in flight at the same time: authorities limit pending orders and requests in a second. A
/// thousand names take a few minutes.
pub(crate) const ORDERS_IN_FLIGHT_MAX: usize = 16;

/// How long a directory is used before it is read again.
pub(crate) const DIRECTORY_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The first pause between two looks at an order; it doubles.
pub(crate) const POLL_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest such pause, and the longest that the server can ask for by `Retry-After`.
pub(crate) const POLL_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest pause that a server can ask for by `Retry-After` with an error, such as a rate limit.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The age at which a certificate is renewed at the earliest, or a quarter of its life if that is shorter. A server whose
/// windows have always passed gets four orders a day, and not an order at once after each other. So does one whose
/// certificates seem to be old when they are issued, because this machine's clock is ahead.
pub(crate) const RENEWAL_AGE_MIN: Duration = Duration::from_secs(6 * 3600);
/// The pause between two looks at the renewal information (RFC 9773 section 4.3.2): limits, and the default.
pub(crate) const RENEWAL_PAUSE_MIN: Duration = Duration::from_secs(60);
/// See [`RENEWAL_PAUSE_MIN`].
pub(crate) const RENEWAL_PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);
/// See [`RENEWAL_PAUSE_MIN`].
pub(crate) const RENEWAL_PAUSE: Duration = Duration::from_secs(6 * 3600);
