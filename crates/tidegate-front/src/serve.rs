//! The steps of serving a request that all protocols share.
//!
//! A driver ([`crate::h1`]) parses a head into `x.request.head`, and calls in this order:
//!
//! | step | file |
//! |---|---|
//! | memory for the request | `scratch` |
//! | server, target, refusals, phases: from a head to a response | [`begin`] |
//! | the body's pieces, `send_timeout`, trailers, what was sent | [`deliver`] |
//! | `limit_rate` | [`pace`] |
//! | `post_action`, loggers, a response that broke off | [`finish`] |
//! | what protocols with streams share: heads, bodies, refusals | [`streams`], [`stream_body`] |
//!
//! ```text
//! begin::first_byte(front, x, now);          // when its first byte has arrived
//! begin::request(binding, servers, x)?;     // the head is complete
//! let outcome = match begin::refusal(binding, x) {
//!     Some(status) => begin::refuse(x, status).await,
//!     None => phases::run(x).await,
//! };
//! …                                         // the driver writes the response, with `deliver::Pull`
//! if let Some(rest) = finish::request(x, closes) { rest.await }
//! ```

pub(crate) mod begin;
pub(crate) mod deliver;
pub(crate) mod finish;
pub(crate) mod pace;
pub(crate) mod scratch;
pub(crate) mod stream_body;
pub(crate) mod streams;
