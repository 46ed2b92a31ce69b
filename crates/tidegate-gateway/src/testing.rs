//! The test bench of the engine with the modules of this crate.

use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::stream_core::StreamCore;
use tidegate_plan::testing::ModuleList;
use tidegate_plan::{Entry, ErasedModule};

use crate::api::Api;
use crate::fastcgi::{FastCgi, FastCgiCache};
use crate::grpc::Grpc;
use crate::health_check::HealthCheck;
use crate::keyval::Keyval;
use crate::memcached::Memcached;
use crate::proxy::{Proxy, ProxyCache};
use crate::scgi::{Scgi, ScgiCache};
use crate::slice::Slice;
use crate::stream::health_check::SessionHealthCheck;
use crate::stream::proxy::SessionProxy;
use crate::upstream::Upstream;
use crate::uwsgi::{Uwsgi, UwsgiCache};
use crate::zone_sync::ZoneSync;

pub(crate) use tidegate_plan::testing::TestResponse;

/// A plan of these modules, see [`tidegate_plan::testing`].
pub(crate) type Bench = tidegate_plan::testing::Bench<Gateways>;

pub(crate) struct Gateways;

impl ModuleList for Gateways {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        &[
            &Entry::<MainCore>::NEW,
            &Entry::<HttpCore>::NEW,
            &Entry::<StreamCore>::NEW,
            &Entry::<ZoneSync>::NEW,
            &Entry::<Keyval>::NEW,
            &Entry::<Upstream>::NEW,
            &Entry::<Proxy>::NEW,
            &Entry::<SessionProxy>::NEW,
            &Entry::<ProxyCache>::NEW,
            &Entry::<FastCgi>::NEW,
            &Entry::<FastCgiCache>::NEW,
            &Entry::<Uwsgi>::NEW,
            &Entry::<UwsgiCache>::NEW,
            &Entry::<Scgi>::NEW,
            &Entry::<ScgiCache>::NEW,
            &Entry::<Grpc>::NEW,
            &Entry::<Memcached>::NEW,
            &Entry::<HealthCheck>::NEW,
            &Entry::<SessionHealthCheck>::NEW,
            &Entry::<Api>::NEW,
            &Entry::<Slice>::NEW,
        ]
    }
}
