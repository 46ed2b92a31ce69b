//! Servers of groups that another program names while this one runs: `upsync` follows Consul and etcd,
//! `docker_endpoint` the containers of Docker.
//!
//! ```nginx
//! upstream backend {
//!     upsync 10.0.0.5:8500/v1/kv/upstreams/backend/ upsync_type=consul;
//!     upsync_dump_path /var/lib/nginx/backend.conf;
//! }
//! ```
//! A task on the thread of background work asks, and the engine holds the question until there is something new. A response is
//! checked as a whole; then the group gets its servers in one step, and those that remain keep their state. A response that is
//! invalid, or none, changes nothing.
//!
//! | file | content |
//! |---|---|
//! | consul, etcd | requests and responses of the engines; no I/O |
//! | endpoint | servers as an engine names them; no I/O |
//! | members | from these to the members of a group |
//! | empty | responses without a server; no I/O |
//! | client, login | HTTP to an engine, and how this server names itself there |
//! | kept | state and figures, which outlive reloads |
//! | upsync | the directives |
//! | follow | the task of `upsync` |
//! | docker | `docker_endpoint`: directives, labels, and the task |

mod client;
mod consul;
pub(crate) mod docker;
mod empty;
mod endpoint;
mod etcd;
mod follow;
pub(crate) mod kept;
mod login;
mod members;
mod pairs;
#[cfg(test)]
mod tests;
pub(crate) mod upsync;

pub use docker::Docker;
#[doc(hidden)]
pub use tests_support::fuzz_discovery;
pub use upsync::Upsync;

/// What fuzz targets call.
mod tests_support {
    use super::{consul, docker, etcd};

    /// Reads a response in each of the forms.
    #[doc(hidden)]
    pub fn fuzz_discovery(response: &[u8]) {
        for kind in [consul::Kind::Keys, consul::Kind::Catalog, consul::Kind::Health] {
            let _ = consul::endpoints(kind, "upstreams/u/", response);
        }
        let _ = etcd::range("/upstreams/u/", response);
        let _ = etcd::event(response);
        docker::fuzz_labels(response);
    }
}
