//! The command line.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub suite: Suite,
    /// Program to measure; without it the `tidegate` beside this program.
    pub tidegate: Option<PathBuf>,
    /// Program to compare with; without it nginx's usual place.
    pub nginx: Option<PathBuf>,
    /// Further caches of the suite streaming; without them their usual places.
    pub varnish: Option<PathBuf>,
    pub traffic_server: Option<PathBuf>,
    pub rounds: u32,
    /// Length of one measured run (of the suite steady: of one case).
    pub run_time: Duration,
    /// Length of the case reload-h2.
    pub reload_time: Duration,
    pub connections: usize,
    pub idle_connections: usize,
    /// Cases to run; all when empty.
    pub only: Vec<String>,
    /// Rows of the suite tuning whose names match; all when `None`.
    pub rows: Option<Rows>,
    pub json: Option<PathBuf>,
    /// The page of the suites streaming, depth, growth and tuning.
    pub html: Option<PathBuf>,
    /// Clients of the suite streaming.
    pub clients: usize,
    /// Files that each client requests; a number that fits when `None`.
    pub files: Option<usize>,
    pub object_bytes: u64,
    /// Seconds in which the origin sends a file, for each table.
    pub origin_seconds: Vec<f64>,
    /// Missed targets end the program with a failure.
    pub strict: bool,
    /// Suite depth: a program for Windows that is measured alone.
    pub wine: Option<PathBuf>,
    /// Whether Tidegate's event loops are watched in all suites.
    pub watchdog: bool,
    pub server_cpu: Option<usize>,
    pub client_cpu: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            suite: Suite::Quick,
            tidegate: None,
            nginx: None,
            varnish: None,
            traffic_server: None,
            rounds: 5,
            run_time: Duration::from_secs(3),
            reload_time: Duration::from_secs(6),
            connections: 64,
            idle_connections: 10_000,
            only: Vec::new(),
            rows: None,
            json: None,
            html: None,
            clients: 100,
            files: None,
            object_bytes: 3 * MEBIBYTE,
            origin_seconds: vec![0.0, 1.0, 3.0],
            strict: false,
            wine: None,
            watchdog: false,
            server_cpu: None,
            client_cpu: None,
        }
    }
}

/// A suite of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// CPU time per request, memory of idle connections, shared fills.
    Quick,
    /// Lost requests at reloads and crashes.
    Steady,
    /// Concurrent misses of a cache.
    Streaming,
    /// The cost of directories on the path of a file.
    Depth,
    /// The cost of application code, and the waiting time of other requests.
    Blocking,
    /// The effect of the settings of a reverse proxy.
    Tuning,
    /// The waiting time of a quiet client beside busy ones.
    Fairness,
    /// What a request costs where a configuration, a zone or a cache is large.
    Growth,
    /// HTTP/2, HTTP/3 and TLS.
    Protocols,
}

/// A pattern for names of rows.
#[derive(Clone, Debug)]
pub(crate) struct Rows(pub pcre2::bytes::Regex);

/// The command to execute.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Run(Box<Options>),
    List,
    Help,
}

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Compares Tidegate with genuine nginx on this machine.

Usage: tidegate-bench [quick|steady|streaming|depth|blocking|tuning|fairness|growth|protocols]
                      [options]

  quick      the cost of requests, idle connections and shared fills (the default)
  steady     lost requests when the server is reloaded every second under load (reload), and
             when its worker process is killed under load (crash)
  streaming  the tables of a published study: 100 clients request the same files, which the
             origin sends at once, over one and over three seconds, through a cold cache with
             proxy_cache_tempfile, with proxy_cache_lock, and with neither
  depth      a small file below 1, 12, 55 and 120 directories, and a name that does not exist
             there: by default, with disable_symlinks on, with open_file_cache
  blocking   application code: pages of 10 kB from a handler in Rust, and from a WebAssembly
             component (where built), beside nginx with php-fpm (must be installed); the handler
             beside Apache with mod_php (where installed); php-fpm behind both; threads and
             memory over a million pages; the waiting time of a static file beside blocking
             work, and beside cold reads
  tuning     the effect of each setting of a reverse proxy, row by row as in a published study:
             workers, affinity, connections, accept_mutex, multi_accept, upstream, keepalive, a
             second backend, deferred, all of them, and return 200 alone; processors of load,
             proxy and backend; the targets of a tuned proxy; and advice for this machine
  fairness   the waiting time of a quiet client, which requests a small file from time to time,
             on a thread beside busy ones: pipelines, uploads, tunnels, sessions of TCP and UDP, downloads, clients of
             one fill, pages of many parts, compression, TLS
  growth     the cost of a request with many locations, entries of map and geo, keys of a limit,
             objects of a cache, and idle connections: 1 to 1000000 of them
  protocols  HTTP/3, HTTP/2 and HTTP/1.1 by TLS, HTTP/2 without TLS: the cost of requests and of
             handshakes, idle connections, HTTP/2 and gRPC to an origin, a lossy path, other clients
             beside hostile ones, reloads under load; and the cost of the crate tidegate-h2 alone

Usage: tidegate-bench instructions [--tidegate PATH] [--table FILE [--update]] [--only PATH]

  counts the instructions of one request by path, under valgrind (which must be installed); fails
  when one is more than 2 % above FILE; --update writes FILE

Usage: tidegate-bench start [--tidegate PATH] [--nginx PATH] [--servers N]... [--rounds N]

  measures the time until the first response of N virtual servers (default: 1000), at a start and at
  a reload, and the longest request during the reload, beside nginx

Usage: tidegate-bench figures [--tidegate PATH] [--only ROW]... [--requests N] [--reloads N]
                              [--rounds N] [--seconds S]

  measures what figures cost, and whether they are right: sums of zones after N requests (default:
  1000000) and N reloads (20), instructions and memory of counting, large responses of api and
  metrics, ten viewers of the live page, a silent collector of traces, frequent scrapes; exit
  status 1 when a goal was missed

Usage: tidegate-bench draw FILE...

  draws the tables of simulations (docs/simulations), each beside its file as SVG

Usage: tidegate-bench cluster [--script PATH] [--purges N] [--partitions N] [--seconds S]
                              [--only PART]... [--envoy PATH --ratelimit PATH]

  measures three servers that share limits and purges, with faults of their engine; to be run by
  scripts/cluster.sh run, as root. N purges (default: 1000) with N partitions (10), and rates over S
  seconds (12), also those of Envoy with its rate-limit service, which scripts/envoy.sh fetches. Parts
  are limits, wait, envoy, discovery, purges, faults, clocks and fail-over

Usage: tidegate-bench cluster --ring [--tidegate PATH] [--objects N]

  measures three servers on loopback whose caches are one: fetches of an object that 300 clients want,
  and of N objects (default: 10000) when one of the servers is lost

Options of the suites:

  --tidegate PATH       program to measure (default: tidegate, for blocking tidegate-example,
                        beside this program)
  --nginx PATH          program to compare with (default: /usr/sbin/nginx or from PATH)
  --varnish PATH        streaming: varnishd to compare with (default: its usual place)
  --traffic-server PATH streaming: traffic_server to compare with (default: its usual place)
  --only CASE           run this case (streaming: row) only; may be repeated
  --rows REGEX          tuning: the rows whose names match, with the rows they are compared with
  --list                print the names of the cases
  --rounds N            runs of each side, alternating (1 to 100; default quick, depth and
                        blocking 5, tuning, fairness, growth and protocols 3, others 1)
  --seconds S           length of a run (quick, depth, blocking, tuning, fairness, growth, protocols: 0.1
                        to 60, default 3, depth, growth and protocols 1, tuning and fairness 2; steady: 1 to 600,
                        default 60; the case crash takes at most 10)
  --reload-seconds S    protocols: length of the case reload-h2 (1 to 600, default 6)
  --connections N       connections of the load (1 to 5000, default 64; depth 15, tuning 100)
  --idle-connections N  connections of the memory cases (1 to 200000, default 10000,
                        protocols 3000, of HTTP/3 at most 1000)
  --clients N           streaming: clients (1 to 2000, default 100)
  --files N             streaming: files per client (1 to 1000; default 4 to 20)
  --object-mib M        streaming: size of a file (0.001 to 64, default 3; published: 30)
  --origin-seconds LIST streaming: seconds in which the origin sends a file (default 0,1,3)
  --wine PATH           depth: instead, three ways to check names of files on Windows, in this
                        tidegate.exe under Wine (scripts/windows.sh bench builds and measures it)
  --html FILE           streaming, depth, growth, tuning: also write a page with charts there
  --server-cpu N        processor of the servers (default: the first)
  --client-cpu N        processor of load and origin (default: the last)
  --json FILE           also write every run's figures there
  --strict              quick, depth, blocking, tuning, fairness, growth, protocols: missed targets and wrong
                        responses are a failure (needs nginx)
  --watchdog            quick, depth, growth, tuning, protocols: let Tidegate log event-loop iterations above 50 ms, as in
                        the other suites; this costs CPU time
  --help                this text

Notes give the cost of a bare loop of the same system calls in the same rounds, the lower bound of any
server (quick), and of HAProxy where it is installed (proxy rows in quick and tuning, php in blocking).

A ratio is Tidegate's figure divided by nginx's; a target is the largest acceptable
ratio. Spreads are minimum and maximum of the rounds; \"best\" is the ratio of the best rounds,
which a busy machine disturbs least. Targets of the suite steady apply to Tidegate's figure
alone.

The rows of streaming are shown beside the study's published rows for nginx with and without
its patch. Every body is compared byte by byte.

Exit status: 0; 1 when a requirement on Tidegate is not met (all of the suite steady; those of
the others with --strict; in streaming a wrong body, or a file fetched twice with tempfile or lock);
2 when nothing could be measured.
";

/// Returns the parser of what follows a subcommand's name; `None` for any other command line.
pub(crate) fn subcommand(
    wanted: &str,
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<lexopt::Parser> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let first = parser.next();
    matches!(first, Ok(Some(Value(name))) if name == wanted).then_some(parser)
}

/// Reads the arguments (without the program's name).
///
/// # Errors
/// A message for unknown options and values out of bounds.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Command, String> {
    parse_arguments(lexopt::Parser::from_args(arguments)).map_err(|error| error.to_string())
}

fn parse_arguments(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    let (mut suite, mut rounds, mut seconds, mut list) = (None, None, None, false);
    let (mut connections, mut idle) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tidegate") => options.tidegate = Some(parser.value()?.into()),
            Long("nginx") => options.nginx = Some(parser.value()?.into()),
            Long("varnish") => options.varnish = Some(parser.value()?.into()),
            Long("traffic-server") => options.traffic_server = Some(parser.value()?.into()),
            Long("rows") => options.rows = Some(pattern(&mut parser)?),
            Long("only") => options.only.push(parser.value()?.string()?),
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("html") => options.html = Some(parser.value()?.into()),
            Long("clients") => options.clients = number(&mut parser, 1, 2000)?,
            Long("files") => options.files = Some(number(&mut parser, 1, 1000)?),
            Long("object-mib") => {
                let mebibytes = number(&mut parser, 0.001, 64.0)?;
                options.object_bytes = (mebibytes * MEBIBYTE as f64) as u64;
            }
            Long("origin-seconds") => options.origin_seconds = seconds_list(&mut parser)?,
            Long("wine") => options.wine = Some(parser.value()?.into()),
            Long("strict") => options.strict = true,
            Long("watchdog") => options.watchdog = true,
            Long("rounds") => rounds = Some(number(&mut parser, 1, 100)?),
            Long("seconds") => seconds = Some(number(&mut parser, 0.1, STEADY_SECONDS_MAX)?),
            Long("connections") => connections = Some(number(&mut parser, 1, 5000)?),
            Long("idle-connections") => idle = Some(number(&mut parser, 1, 200_000)?),
            Long("reload-seconds") => {
                let seconds = number(&mut parser, 1.0, STEADY_SECONDS_MAX)?;
                options.reload_time = Duration::from_secs_f64(seconds);
            }
            Long("server-cpu") => options.server_cpu = Some(number(&mut parser, 0, 1023)?),
            Long("client-cpu") => options.client_cpu = Some(number(&mut parser, 0, 1023)?),
            Long("list") => list = true,
            Long("help") | Short('h') => return Ok(Command::Help),
            Value(name) if suite.is_none() && Suite::named(&name).is_some() => {
                suite = Suite::named(&name);
            }
            other => return Err(other.unexpected()),
        }
    }
    if list {
        return Ok(Command::List);
    }
    options.suite = suite.unwrap_or(options.suite);
    if options.suite == Suite::Streaming && seconds.is_some() {
        return Err("streaming takes as long as its files: --files, --origin-seconds".into());
    }
    let (default_rounds, default_seconds, bounds) = rounds_and_seconds(options.suite);
    let seconds = seconds.unwrap_or(default_seconds);
    if !bounds.contains(&seconds) {
        let (least, most) = bounds.into_inner();
        return Err(format!("--seconds {seconds} is not between {least} and {most}").into());
    }
    of_other_suites(&options)?;
    options.connections = connections.unwrap_or(match options.suite {
        Suite::Depth => 15,
        Suite::Tuning => 100,
        _ => options.connections,
    });
    options.idle_connections = idle.unwrap_or(match options.suite {
        Suite::Protocols => 3_000,
        _ => options.idle_connections,
    });
    options.rounds = rounds.unwrap_or(default_rounds);
    options.run_time = Duration::from_secs_f64(seconds);
    Ok(Command::Run(Box::new(options)))
}

/// Returns the rounds and the length of a run by default, and the bounds of the length, both in seconds.
fn rounds_and_seconds(suite: Suite) -> (u32, f64, RangeInclusive<f64>) {
    match suite {
        Suite::Quick | Suite::Blocking => (5, 3.0, 0.1..=60.0),
        Suite::Depth => (5, 1.0, 0.1..=60.0),
        Suite::Growth => (3, 1.0, 0.1..=60.0),
        Suite::Tuning | Suite::Fairness => (3, 2.0, 0.1..=60.0),
        Suite::Protocols => (3, 1.0, 0.1..=60.0),
        Suite::Steady => (1, 60.0, 1.0..=STEADY_SECONDS_MAX),
        Suite::Streaming => (1, 1.0, 1.0..=1.0),
    }
}

/// Refuses options of other suites.
fn of_other_suites(options: &Options) -> Result<(), lexopt::Error> {
    let has_page =
        matches!(options.suite, Suite::Streaming | Suite::Depth | Suite::Growth | Suite::Tuning);
    if options.html.is_some() && !has_page {
        return Err("--html is for streaming, depth, growth and tuning".into());
    }
    if options.rows.is_some() && options.suite != Suite::Tuning {
        return Err("--rows is for tuning".into());
    }
    if options.wine.is_some() && (options.suite != Suite::Depth || options.html.is_some()) {
        return Err("--wine is for depth, without --html".into());
    }
    Ok(())
}

impl Suite {
    /// Returns the suite of a name on the command line.
    fn named(name: &std::ffi::OsStr) -> Option<Suite> {
        let suite = match name.to_str()? {
            "quick" => Suite::Quick,
            "steady" => Suite::Steady,
            "streaming" => Suite::Streaming,
            "depth" => Suite::Depth,
            "blocking" => Suite::Blocking,
            "tuning" => Suite::Tuning,
            "fairness" => Suite::Fairness,
            "growth" => Suite::Growth,
            "protocols" => Suite::Protocols,
            _ => return None,
        };
        Some(suite)
    }
}

fn pattern(parser: &mut lexopt::Parser) -> Result<Rows, lexopt::Error> {
    let text = parser.value()?.string()?;
    let compiled = pcre2::bytes::Regex::new(&text);
    compiled.map(Rows).map_err(|error| format!("{text}: {error}").into())
}

const STEADY_SECONDS_MAX: f64 = 600.0;

/// Parses a list such as `0,1,3`: each at most [`ORIGIN_SECONDS_MAX`].
fn seconds_list(parser: &mut lexopt::Parser) -> Result<Vec<f64>, lexopt::Error> {
    let value = parser.value()?.string()?;
    let seconds = value.split(',').map(|word| {
        let seconds = word.trim().parse::<f64>().ok();
        seconds.filter(|seconds| (0.0..=ORIGIN_SECONDS_MAX).contains(seconds))
    });
    let list: Option<Vec<f64>> = seconds.collect();
    let wrong = || format!("{value} is not a list of seconds from 0 to {ORIGIN_SECONDS_MAX}");
    list.ok_or_else(|| wrong().into())
}

const ORIGIN_SECONDS_MAX: f64 = 60.0;
const MEBIBYTE: u64 = 1024 * 1024;

/// Parses a number within bounds (NaN is outside of any).
fn number<T>(parser: &mut lexopt::Parser, minimum: T, maximum: T) -> Result<T, lexopt::Error>
where
    T: FromStr<Err: Into<Box<dyn std::error::Error + Send + Sync>>>
        + PartialOrd
        + std::fmt::Display
        + Send
        + Sync
        + 'static,
{
    let value = parser.value()?;
    let parsed: T = value.parse()?;
    if parsed >= minimum && parsed <= maximum {
        return Ok(parsed);
    }
    Err(format!("{} is not between {minimum} and {maximum}", value.to_string_lossy()).into())
}
