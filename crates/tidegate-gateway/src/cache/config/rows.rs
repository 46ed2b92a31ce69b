//! The directives, once for all prefixes: `proxy_`, `fastcgi_`, `uwsgi_`, `scgi_`.

/// Makes the table of directives for a prefix. Each row lists its full name for every prefix; the compiler refuses a
/// prefix without a name.
macro_rules! cache_rows {
    ($prefix:literal) => {{
        use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row, with_prefix};

        use crate::cache::config::conf::CacheConf;
        use crate::cache::config::purge;

        const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;
        const ROWS: &[Directive<CacheConf>] = &[
            row(
                with_prefix($prefix, [
                    "proxy_cache_path",
                    "fastcgi_cache_path",
                    "uwsgi_cache_path",
                    "scgi_cache_path",
                ]),
                Contexts::HTTP,
                Arity::AT_LEAST_TWO,
                "",
                "A cache: its directory, `levels=`, `use_temp_path=`, `keys_zone=name:size`, `inactive=`, `max_size=`, `min_free=`, `fsync=` (`off`, `data`, `all`), `scrub=` (how long a round takes in which all files are compared with their checksums; `30d`, or `off`), and the pace of manager, loader and purger. `purge_sync` (`purge_sync=NAME` with several stores): purges take effect on all servers with the same `zone_sync_store` and a cache of the same name. A purge is appended to a stream of the store before the response; where that fails the response is 503, `not distributed`, and the purge is sent later. A server that was away applies what it has missed before it serves from the cache; what it cannot know makes all objects stale. `tier=NAME`: a second tier, by the name of a directive of the same module (`proxy_cache_tier`). `purge_partition=serve|revalidate` (`serve`): while the store is not available the cache is served, or all objects become stale after `after=` (`10s`, from `1s` on), and again each time it has passed.",
                |conf, args| conf.add_path(args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_tier",
                    "fastcgi_cache_tier",
                    "uwsgi_cache_tier",
                    "scgi_cache_tier",
                ]),
                Contexts::HTTP,
                Arity::between(2, 17),
                "",
                $crate::cache::config::rows::TIER,
                |conf, args| conf.add_tier(args),
            ),
            row(
                with_prefix($prefix, ["proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache"]),
                ALL,
                Arity::ONE,
                "off",
                "The cache to use, by the name of its zone; variables may name it; `off` or nothing: none.",
                |conf, args| conf.set_zone(args),
            ),
            row(
                with_prefix($prefix, ["proxy_cache_key", "fastcgi_cache_key", "uwsgi_cache_key", "scgi_cache_key"]),
                ALL,
                Arity::ONE,
                $crate::cache::config::rows::key_default($prefix),
                "What makes two requests the same for the cache.",
                |conf, args| once(&mut conf.key, args.word(0).clone(), args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_valid",
                    "fastcgi_cache_valid",
                    "uwsgi_cache_valid",
                    "scgi_cache_valid",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "How long responses with these statuses (`any`: all) are fresh when their own fields do not set a time; without statuses: 200, 301 and 302.",
                |conf, args| conf.set_valid(args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_bypass",
                    "fastcgi_cache_bypass",
                    "uwsgi_cache_bypass",
                    "scgi_cache_bypass",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "Conditions under which the response is not sent from the cache: a value neither empty nor `0`.",
                |conf: &mut CacheConf, args: &Args<'_>| -> Result<(), Diagnostic> {
                    conf.bypass.get_or_insert_default().extend_from_slice(args.words());
                    Ok(())
                },
            ),
            row(
                with_prefix($prefix, ["proxy_no_cache", "fastcgi_no_cache", "uwsgi_no_cache", "scgi_no_cache"]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "Conditions under which a response is not stored; looked at when its head is there.",
                |conf: &mut CacheConf, args: &Args<'_>| -> Result<(), Diagnostic> {
                    conf.no_cache.get_or_insert_default().extend_from_slice(args.words());
                    Ok(())
                },
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_methods",
                    "fastcgi_cache_methods",
                    "uwsgi_cache_methods",
                    "scgi_cache_methods",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "GET HEAD",
                "Methods whose responses are stored; GET and HEAD always are.",
                |conf, args| conf.set_methods(args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_min_uses",
                    "fastcgi_cache_min_uses",
                    "uwsgi_cache_min_uses",
                    "scgi_cache_min_uses",
                ]),
                ALL,
                Arity::ONE,
                "1",
                "How many requests of a key it takes before a response is stored.",
                |conf, args| {
                    let uses = args.number(0, 0..=u64::from(u32::MAX))?;
                    once(&mut conf.min_uses, uses as u32, args)
                },
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_max_range_offset",
                    "fastcgi_cache_max_range_offset",
                    "uwsgi_cache_max_range_offset",
                    "scgi_cache_max_range_offset",
                ]),
                ALL,
                Arity::ONE,
                "",
                "Requests for ranges that begin at this byte or after it are passed to the origin unchanged, without the cache.",
                |conf, args| once(&mut conf.max_range_offset, args.offset(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_ranges",
                    "fastcgi_cache_ranges",
                    "uwsgi_cache_ranges",
                    "scgi_cache_ranges",
                ]),
                ALL,
                Arity::FLAG,
                "off",
                "Ranges far ahead of what is being fetched, and those beyond cache_max_range_offset, are fetched by themselves and kept in parts of 1 MB, where the origin gives a strong validator.",
                |conf, args| once(&mut conf.ranges, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_use_stale",
                    "fastcgi_cache_use_stale",
                    "uwsgi_cache_use_stale",
                    "scgi_cache_use_stale",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "off",
                "When a stale response may be sent: while it is updated, or when the origin fails.",
                |conf, args| conf.set_use_stale(args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_lock",
                    "fastcgi_cache_lock",
                    "uwsgi_cache_lock",
                    "scgi_cache_lock",
                ]),
                ALL,
                Arity::FLAG,
                "off",
                "Whether only one request of a key at a time is passed to the origin for a new response; the others wait for it and continue when it arrives.",
                |conf, args| once(&mut conf.lock, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_lock_age",
                    "fastcgi_cache_lock_age",
                    "uwsgi_cache_lock_age",
                    "scgi_cache_lock_age",
                ]),
                ALL,
                Arity::ONE,
                "5s",
                "When nothing has arrived for this time, one more request is passed to the origin.",
                |conf, args| once(&mut conf.lock_age, args.milliseconds(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_lock_timeout",
                    "fastcgi_cache_lock_timeout",
                    "uwsgi_cache_lock_timeout",
                    "scgi_cache_lock_timeout",
                ]),
                ALL,
                Arity::ONE,
                "5s",
                "How long a request waits for another request of the same key. Then it gets the response that is arriving; if none is, it is passed to the origin, and its response is not stored.",
                |conf, args| once(&mut conf.lock_timeout, args.milliseconds(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_background_update",
                    "fastcgi_cache_background_update",
                    "uwsgi_cache_background_update",
                    "scgi_cache_background_update",
                ]),
                ALL,
                Arity::FLAG,
                "off",
                "Whether a stale response is sent at once while it is updated in the background.",
                |conf, args| once(&mut conf.background_update, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_revalidate",
                    "fastcgi_cache_revalidate",
                    "uwsgi_cache_revalidate",
                    "scgi_cache_revalidate",
                ]),
                ALL,
                Arity::FLAG,
                "off",
                "Whether stale responses are revalidated by requests with `If-Modified-Since` and `If-None-Match`.",
                |conf, args| once(&mut conf.revalidate, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_convert_head",
                    "fastcgi_cache_convert_head",
                    "uwsgi_cache_convert_head",
                    "scgi_cache_convert_head",
                ]),
                ALL,
                Arity::FLAG,
                "on",
                "Whether a HEAD request that is to be cached is passed to the origin as GET. When off, the key should contain `$request_method`.",
                |conf, args| once(&mut conf.convert_head, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_purge",
                    "fastcgi_cache_purge",
                    "uwsgi_cache_purge",
                    "scgi_cache_purge",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "Conditions under which a request purges its key from the cache and gets 204 (404: it was not there): a value neither empty nor `0`. A key that ends in `*` means all keys with this prefix. Or, as in the module ngx_cache_purge, `on`, `off`, or a method with `from` and addresses (`purge_all` before it: the whole cache), with the response 200; in a location of its own a zone and a key.",
                |conf, args| purge::set(&mut conf.purge, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_purge_tag",
                    "fastcgi_cache_purge_tag",
                    "uwsgi_cache_purge_tag",
                    "scgi_cache_purge_tag",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "Tags that a purge request removes in place of its key, separated by spaces or commas: all responses with one of them.",
                |conf: &mut CacheConf, args: &Args<'_>| -> Result<(), Diagnostic> {
                    conf.purge_tag.get_or_insert_default().extend_from_slice(args.words());
                    Ok(())
                },
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_purge_soft",
                    "fastcgi_cache_purge_soft",
                    "uwsgi_cache_purge_soft",
                    "scgi_cache_purge_soft",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "",
                "Conditions under which a purge makes responses stale and does not remove them: a value neither empty nor `0`.",
                |conf: &mut CacheConf, args: &Args<'_>| -> Result<(), Diagnostic> {
                    conf.purge_soft.get_or_insert_default().extend_from_slice(args.words());
                    Ok(())
                },
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_tag_header",
                    "fastcgi_cache_tag_header",
                    "uwsgi_cache_tag_header",
                    "scgi_cache_tag_header",
                ]),
                ALL,
                Arity::AT_LEAST_ONE,
                "Cache-Tag Surrogate-Key",
                "Fields of the origin's response with its tags; `off`: none.",
                |conf, args| conf.set_tag_header(args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_tempfile",
                    "fastcgi_cache_tempfile",
                    "uwsgi_cache_tempfile",
                    "scgi_cache_tempfile",
                ]),
                ALL,
                Arity::FLAG,
                "on",
                "Whether requests for a response that is being fetched receive its bytes as they arrive. With cache_lock off as well, each request is passed to the origin. Without the directive it is off where buffering is off, and beside cache_lock, which has it for bodies above 64 KiB.",
                |conf, args| once(&mut conf.tempfile, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_tempfile_timeout",
                    "fastcgi_cache_tempfile_timeout",
                    "uwsgi_cache_tempfile_timeout",
                    "scgi_cache_tempfile_timeout",
                ]),
                ALL,
                Arity::ONE,
                "5s",
                "How long such a request waits for the head of the response before it is passed to the origin.",
                |conf, args| once(&mut conf.tempfile_timeout, args.milliseconds(0)?, args),
            ),
            row::<CacheConf>(
                with_prefix($prefix, [
                    "proxy_cache_tempfile_loop",
                    "fastcgi_cache_tempfile_loop",
                    "uwsgi_cache_tempfile_loop",
                    "scgi_cache_tempfile_loop",
                ]),
                ALL,
                Arity::ONE,
                "50ms",
                "Accepted and without effect: nothing polls.",
                |conf, args| once(&mut conf.tempfile_loop, args.milliseconds(0)?, args),
            ).without_effect(),
            row(
                with_prefix($prefix, [
                    "proxy_cache_rfc9111",
                    "fastcgi_cache_rfc9111",
                    "uwsgi_cache_rfc9111",
                    "scgi_cache_rfc9111",
                ]),
                ALL,
                Arity::FLAG,
                "off",
                "The rules of RFC 9111, 5861 and 9213 where nginx has others: `Age`, requests' directives, guessed times, `must-revalidate`, `CDN-Cache-Control`, `Authorization`, invalidation by unsafe methods. Revalidation and background updates are on unless switched off; only GET and HEAD are cached.",
                |conf, args| once(&mut conf.rfc9111, args.flag(0)?, args),
            ),
            row(
                with_prefix($prefix, [
                    "proxy_cache_peers",
                    "fastcgi_cache_peers",
                    "uwsgi_cache_peers",
                    "scgi_cache_peers",
                ]),
                ALL,
                Arity::between(1, 3),
                "off",
                $crate::cache::config::rows::PEERS,
                |conf, args| conf.set_peers(args),
            ),
        ];
        ROWS
    }};
}

pub(crate) use cache_rows;

/// The description of `*_cache_tier`.
pub(crate) const TIER: &str = "A second tier of caches (`tier=NAME`): a bucket of an S3-compatible store that servers share. \
    `proxy_cache_tier NAME s3://BUCKET[/PREFIX] [endpoint=URL] [region=REGION] [path_style=on|off] \
    [access_key=KEY secret_key=KEY [session_token=TOKEN] | credentials=FILE [profile=NAME]] [min_uses=NUMBER] \
    [max_object=SIZE] [upload=NUMBER] [hedge=TIME] [timeout=TIME] [ssl_verify=on|off] [ssl_trusted_certificate=FILE]`. \
    A miss asks the tier; what it has is streamed to the client and stored. Where it has not responded after `hedge` (30 ms), the \
    origin is asked as well: the first one that responds is used. A response that was stored here and has been used \
    `min_uses` times (2) is uploaded in the background, if its body has at most `max_object` bytes (16m, at most 1g), \
    at most `upload` (4) at a time. Objects have the cache's name, so that servers share those of caches with the same name; \
    they have checksums, and one that does not match is a miss. A body of more than 256 KB is passed on before all of it was \
    compared, so the origin has to be able to complete it: it is shared over HTTP alone (`proxy_cache_tier`), with a strong \
    validator and without `Content-Encoding`, and never over FastCGI, SCGI and uwsgi. An object that is older than a purge is not used; the clocks of \
    the servers have to agree within 2 s. A response of the tier, and each 64 KB of it, may take `timeout` (1s). After five \
    failures in a row the tier is left alone for 5 s, then for twice the time up to 60 s. `endpoint` is `http://HOST[:PORT]` or \
    `https://HOST[:PORT]`; without it it is AWS's of the region (`us-east-1`). With `path_style=on`, the default, the bucket is a \
    part of the path, else of the host's name. FILE has the form of AWS's tools, NAME is a section in it (`default`). Without keys \
    requests are not signed. The store has to know conditional writes (`If-None-Match`, `If-Match`); with one that does not, the \
    last writer wins.";

/// The description of `*_cache_peers`.
pub(crate) const PEERS: &str = "The caches of several servers as one: `proxy_cache_peers GROUP self=ADDRESS [hot=USES]`, or `off`. \
    GROUP is an `upstream` with all of the servers, also this one, which `self` names as the group does. Each key has an owner among \
    the servers that can be used, by their addresses and weights. A miss, and a stale response, ask the owner over HTTP/1.1 with the \
    client's request, and the origin if this server is the owner or the owner has no response; so the origin gets one request for \
    a response, whichever servers clients come to. The response is passed on, and stored here once there were `hot` requests for it \
    (8; 1: at once), for as long as the owner has it. All servers have the same configuration; a request whose key is another one \
    on the owner goes to the origin. The owner handles the requests of the others as those of their clients, with the client's \
    address, by the server and the location that they find there; so limits count them there as well, where `$realip_remote_addr` \
    is the server that asks. The addresses of the group are trusted. The group needs connections without TLS. Requests other than GET and HEAD, subrequests and slices do not ask, nor do \
    requests of clients with a certificate (`ssl_verify_client`). A purge takes effect on one server, unless \
    caches have `purge_sync`; what was purged here is not taken from a server that has it still.";

/// Returns the text for the default of `*_cache_key`: other gateways than `proxy` have none.
pub(crate) const fn key_default(prefix: &str) -> &'static str {
    match prefix.as_bytes() {
        b"proxy_" => "$scheme$proxy_host$request_uri",
        _ => "",
    }
}
