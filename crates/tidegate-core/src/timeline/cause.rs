//! The causes of slowness.

/// What a request waits for. Where a request waits for several things at once, the later one in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Something without a name here: a tunnel, an event of another request.
    Other,
    /// The origin: the rest of a response that has begun.
    OriginStream,
    /// The origin: the head of its response, the request sent or not yet taken.
    OriginThink,
    /// The connection to an origin.
    Connect,
    /// The address of a name.
    Dns,
    /// A server of a group that has a connection to spare, or a process of an application.
    Queue,
    /// Another request that fetches the same response into a cache.
    CacheLock,
    /// A disk.
    Disk,
    /// The queue of a thread pool.
    Pool,
    /// Application code.
    Handler,
    /// A handshake, with the client or with an origin.
    Tls,
    /// The client: it does not take what is sent.
    ClientSlowRead,
    /// The client: the rest of its head or of its body.
    ClientSlowUpload,
    /// A limit that delays: of requests or of rates.
    Limit,
    /// The decision whether the request is allowed.
    Auth,
    /// The event loop: it was busy with other requests, or with this one.
    Loop,
}

/// Number of causes.
pub const CAUSES: usize = Cause::ALL.len();

impl Cause {
    /// All causes in order.
    pub const ALL: [Cause; 16] = [
        Cause::Other,
        Cause::OriginStream,
        Cause::OriginThink,
        Cause::Connect,
        Cause::Dns,
        Cause::Queue,
        Cause::CacheLock,
        Cause::Disk,
        Cause::Pool,
        Cause::Handler,
        Cause::Tls,
        Cause::ClientSlowRead,
        Cause::ClientSlowUpload,
        Cause::Limit,
        Cause::Auth,
        Cause::Loop,
    ];

    /// Returns the word of `$request_verdict`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Other => "other",
            Cause::OriginStream => "origin_stream",
            Cause::OriginThink => "origin_think",
            Cause::Connect => "connect",
            Cause::Dns => "dns",
            Cause::Queue => "queue",
            Cause::CacheLock => "cache_lock",
            Cause::Disk => "disk",
            Cause::Pool => "pool",
            Cause::Handler => "handler",
            Cause::Tls => "tls",
            Cause::ClientSlowRead => "client_slow_read",
            Cause::ClientSlowUpload => "client_slow_upload",
            Cause::Limit => "limit",
            Cause::Auth => "auth",
            Cause::Loop => "loop",
        }
    }

    /// Returns the cause with a number of [`Cause::ALL`].
    pub(super) fn numbered(number: u8) -> Cause {
        Cause::ALL.get(usize::from(number)).copied().unwrap_or(Cause::Other)
    }
}
