//! Requests to an ACME server, over the connections of gateways: one for each request, since they are few and far apart.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use tidegate_acme::{BODY_BYTES_MAX, Method, Request, Response};
use tidegate_codec::Known;
use tidegate_codec::request::Method as HttpMethod;
use tidegate_gateway::outbound;
use tidegate_rt::net::Addr;
use tidegate_rt::{clock, timer};
use tidegate_tls::{Protocols, TlsTarget};
use tidegate_upstream::{
    CollectError, ConnectionReuse, FetchSettings, Group, LogContext, OriginHead, OriginRequest,
    OriginResponse, Report, RequestPayload, fetch,
};

use super::issuer::IssuerPlan;

/// An absolute URL with `https`.
pub(super) struct Url<'a> {
    /// As in `Host`.
    authority: &'a str,
    /// Without the brackets of an IPv6 address.
    host: &'a str,
    port: u16,
    /// Path and query.
    target: &'a str,
}

const PORT_DEFAULT: u16 = 443;
/// Limit for a request, from the lookup of the name to the end of the response.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Limits for the parts of it.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);
const READ_TIME_MAX: Duration = Duration::from_secs(40);
/// Bytes of the largest head of a response: a list of orders can have long `Link` fields.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Redirects of the directory that are followed.
const REDIRECTS_MAX: usize = 5;
const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

static SETTINGS: LazyLock<Arc<FetchSettings>> = LazyLock::new(|| {
    Arc::new(outbound::fetch_settings(CONNECT_TIME_MAX, READ_TIME_MAX, TIME_MAX, HEAD_BYTES_MAX))
});

impl<'a> Url<'a> {
    /// Parses a URL.
    ///
    /// # Errors
    /// The reason in words for a diagnostic.
    pub(super) fn parse(url: &'a str) -> Result<Url<'a>, &'static str> {
        let rest =
            url.strip_prefix("https://").ok_or("expected a URL that begins with `https://`")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL has no spaces and no letters outside of ASCII");
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let target = target.split('#').next().unwrap_or_default();
        if authority.contains('@') {
            return Err("a user in the URL is not supported");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| "invalid port")?)
            }
            _ => (authority, PORT_DEFAULT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err("no host");
        }
        Ok(Url { authority, host, port, target })
    }

    /// Returns a name for the server: its host, and its port if that is unusual, without the letters of an address that
    /// names of files should not have.
    pub(super) fn name(&self) -> String {
        let host = self.host.replace(':', "_");
        if self.port == PORT_DEFAULT { host } else { format!("{host}_{}", self.port) }
    }

    /// Returns the URL that a `Location` means here; `None` for one that is not followed.
    fn redirected(&self, location: &str) -> Option<String> {
        match location {
            _ if location.starts_with("https://") => Some(location.to_owned()),
            _ if location.starts_with("//") => None,
            _ if location.starts_with('/') => Some(format!("https://{}{location}", self.authority)),
            _ => None,
        }
    }

    fn target(&self) -> String {
        match self.target {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            target => target.to_owned(),
        }
    }
}

/// Sends a request, and returns its response. Redirects of unsigned requests are followed.
///
/// # Errors
/// No response within the limits: the reason for the log. Details of connections were logged.
pub(super) async fn send(plan: &IssuerPlan, request: &Request) -> Result<Response, String> {
    let exchange = Box::pin(follow(plan, request));
    timer::timeout(TIME_MAX, exchange).await.unwrap_or_else(|_| {
        Err(format!("no response from {} within {} s", request.url, TIME_MAX.as_secs()))
    })
}

async fn follow(plan: &IssuerPlan, request: &Request) -> Result<Response, String> {
    let mut url = request.url.clone();
    for _ in 0..=REDIRECTS_MAX {
        let parsed = Url::parse(&url).map_err(|reason| format!("{url}: {reason}"))?;
        let response = one(plan, request, &parsed).await?;
        let is_redirect = matches!(response.head.status, 301 | 302 | 303 | 307 | 308);
        if !is_redirect || request.method == Method::Post {
            return received(response).await.map_err(|reason| format!("{url}: {reason}"));
        }
        let location = response.head.headers.first(Known::Location).unwrap_or_default();
        let location = String::from_utf8_lossy(location);
        let next = parsed.redirected(location.trim());
        url = next.ok_or_else(|| format!("{url} redirects to \"{location}\""))?;
    }
    Err(format!("{} redirects more than {REDIRECTS_MAX} times", request.url))
}

async fn one(
    plan: &IssuerPlan,
    request: &Request,
    url: &Url<'_>,
) -> Result<OriginResponse, String> {
    let addresses = outbound::addresses(plan.resolver.as_ref(), url.host, url.port).await?;
    let addresses = addresses.into_iter().map(Addr::Inet).collect();
    let group = Arc::new(Group::transient(url.authority, addresses, clock::now()));
    let target = url.target();
    let start = request.method.as_str().len() + 1;
    let mut head = format!(
        "{} {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nConnection: close\r\n",
        request.method.as_str(),
        url.authority
    );
    for (name, value) in [("Content-Type", request.content_type), ("Accept", request.accept)] {
        if let Some(value) = value {
            head += &format!("{name}: {value}\r\n");
        }
    }
    let payload = match request.method {
        Method::Post => {
            head += &format!("Content-Length: {}\r\n", request.body.len());
            RequestPayload::Bytes(Bytes::from(request.body.clone()))
        }
        Method::Get | Method::Head => RequestPayload::None,
    };
    head += "\r\n";
    let name: Arc<[u8]> = url.host.as_bytes().into();
    let method = match request.method {
        Method::Get => HttpMethod::Get,
        Method::Head => HttpMethod::Head,
        Method::Post => HttpMethod::Post,
    };
    let head = (OriginHead::Text(head.into_bytes()), start..start + target.len());
    let tls = Some(TlsTarget::new(plan.tls.clone(), name, Protocols::default()));
    let request = OriginRequest {
        reuse: ConnectionReuse::Never,
        ..OriginRequest::own(group, method, head, payload, tls)
    };
    let log = LogContext::detached(plan.log.clone());
    let fetched = fetch(request, SETTINGS.clone(), Report::shared(), log).await;
    fetched.map_err(|error| match error.status {
        504 => format!("no response from https://{}{target} in time", url.authority),
        _ => format!("no response from https://{}{target}", url.authority),
    })
}

async fn received(response: OriginResponse) -> Result<Response, String> {
    let OriginResponse { head, body, .. } = response;
    let collected = body.collect(BODY_BYTES_MAX).await;
    let (bytes, _) = collected.map_err(|error| match error {
        CollectError::Upgraded => "the server switches protocols".to_owned(),
        CollectError::Broken => "the response breaks off".to_owned(),
        CollectError::TooLong => format!("the response has more than {BODY_BYTES_MAX} bytes"),
    })?;
    let fields = head.headers.iter().filter_map(|(_, name, value)| {
        Some((str::from_utf8(name).ok()?, str::from_utf8(value).ok()?))
    });
    Ok(Response::new(head.status, fields, bytes))
}
