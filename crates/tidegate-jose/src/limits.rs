//! The limits of tokens and key sets, each with its reason.

/// Bytes of a token in its compact form. Request heads are limited to 32 KB by default
/// (`large_client_header_buffers`), and tokens of identity providers have less than 16 KB.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a key set. A set of ten RSA keys with certificates has 30 KB.
pub const KEY_SET_BYTES_MAX: usize = 1 << 20;
/// Keys of a set. Identity providers publish fewer than ten.
pub const KEYS_MAX: usize = 512;
/// Bits of the smallest RSA key (RFC 7518 sections 3.3 and 4.3).
pub(crate) const RSA_BITS_MIN: usize = 2048;
/// Bits of the largest RSA key: the limit of the library.
pub(crate) const RSA_BITS_MAX: usize = 8192;
/// Keys that a token is compared with without [`is_costly`](crate::SignedToken::is_costly): one comparison takes
/// 60 µs with RSA or P-256, and 90 µs with HMAC for a token of the greatest length.
pub(crate) const CHEAP_KEYS_MAX: usize = 4;
/// Characters of a text of a token or a key that an error shows.
pub(crate) const SHOWN_MAX: usize = 64;
