//! Gateways to common programs: php-fpm, uWSGI (by its three protocols) and memcached, as Debian has them.
//! `scripts/setup.sh test` installs them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Connection, Server, Site, connect};

/// A program behind the server; it ends with the test.
pub(crate) struct Component(Child);

impl Component {
    /// Starts a program and waits for a text in its output.
    #[track_caller]
    pub(crate) fn start(command: &mut Command, ready: &str) -> Component {
        let name = command.get_program().to_owned();
        let started =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = started
            .unwrap_or_else(|error| panic!("{name:?}: {error}; scripts/setup.sh test installs it"));
        let mut component = Component(child);
        let mut lines = BufReader::new(component.0.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        while let Some(Ok(line)) = lines.next() {
            if line.contains(ready) {
                // The rest is read and dropped, so that the program does not block on a full pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return component;
            }
            seen += &line;
            seen.push('\n');
        }
        panic!("{name:?} ended:\n{seen}");
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // Both masters end their processes on TERM.
        let _ = tidegate_os::process::kill(self.0.id(), tidegate_os::process::Signal::Terminate);
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the program of any version that Debian has.
fn php_fpm() -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/sbin")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("php-fpm"))
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from("php-fpm"))
}

fn start_php(site: &Site, children: u32) -> Component {
    let user = if is_root() { "user = root\ngroup = root\n" } else { "" };
    let directory = site.path("");
    let directory = directory.display();
    let text = format!(
        "[global]\nerror_log = /dev/stderr\ndaemonize = no\n[www]\n{user}listen = {directory}/php.sock\n\
         pm = static\npm.max_children = {children}\nphp_admin_flag[log_errors] = on\n"
    );
    fs::write(site.path("php.conf"), text).unwrap();
    let mut command = Command::new(php_fpm());
    command.args(["-R", "-n", "-F", "-y"]).arg(site.path("php.conf"));
    Component::start(&mut command, "ready to handle connections")
}

/// A site as WordPress needs it: everything that is not a file is handled by one script.
const SITE: &str = r#"
    client_body_temp_path {dir}/body; fastcgi_temp_path {dir}/fastcgi;
    fastcgi_cache_path {dir}/cache keys_zone=z:1m;
    server {
        listen 127.0.0.1:{port};
        root {dir}/site;
        index index.php;
        client_max_body_size 8m;
        location / { try_files $uri $uri/ /index.php?$args; }
        location ~ \.php(/|$) {
            fastcgi_split_path_info ^(.+?\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            fastcgi_index index.php;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param SCRIPT_NAME     $fastcgi_script_name;
            fastcgi_param REQUEST_URI     $request_uri;
            fastcgi_param REQUEST_METHOD  $request_method;
            fastcgi_param QUERY_STRING    $query_string;
            fastcgi_param CONTENT_TYPE    $content_type;
            fastcgi_param CONTENT_LENGTH  $content_length;
            fastcgi_pass unix:{dir}/php.sock;
            fastcgi_cache z;
            fastcgi_cache_key $request_uri;
            fastcgi_cache_bypass $arg_fresh;
            fastcgi_no_cache $arg_fresh;
        }
    }"#;

const SCRIPT: &str = r#"<?php
    switch ($_GET['do'] ?? '') {
    case 'large': echo str_repeat('0123456789abcdef', 65536); break;
    case 'upload': echo $_SERVER['REQUEST_METHOD'], ' ', strlen(file_get_contents('php://input')); break;
    case 'status': http_response_code(418); echo 'teapot'; break;
    case 'complain': error_log('something is odd'); echo 'fine'; break;
    case 'cached': header('Cache-Control: max-age=1000'); echo getmypid(), ' ', hrtime(true); break;
    case 'pid': echo getmypid(); break;
    default: echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'];
    }"#;

fn start_site(site: &Site, threads: u32) -> Server {
    fs::create_dir(site.path("site")).unwrap();
    fs::write(site.path("site/index.php"), SCRIPT).unwrap();
    fs::write(site.path("site/plain.txt"), "plain").unwrap();
    let user = if is_root() { "user root;" } else { "" };
    site.configure(&format!("{user} worker_processes {threads};"), SITE);
    let server = site.start();
    server.wait_log("start worker process ");
    server
}

/// Sends a request on a connection of its own: returns status line and body, whatever its framing.
fn ask(port: u16, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn get(port: u16, target: &str) -> (String, String) {
    ask(port, &format!("GET {target} HTTP/1.0\r\nHost: a\r\n\r\n"))
}

#[test]
fn a_site_in_php_works() {
    let site = Site::new();
    let _php = start_php(&site, 2);
    let server = start_site(&site, 1);
    let check = |target: &str, status: &str, body: &str| {
        let (line, got) = get(site.port, target);
        assert_eq!((&line[9..12], got.as_str()), (status, body), "{target}");
    };
    check("/", "200", "/index.php /");
    check("/any/page?a=b", "200", "/index.php /any/page?a=b");
    check("/index.php/path/info", "200", "/index.php /index.php/path/info");
    check("/plain.txt", "200", "plain");
    check("/none.php", "404", &get(site.port, "/none.php").1);
    check("/?do=status", "418", "teapot");
    check("/?do=large", "200", &"0123456789abcdef".repeat(65_536));
    check("/?do=complain", "200", "fine");
    let line = server.wait_log("FastCGI sent in stderr");
    assert!(
        line.contains("something is odd") && line.contains("upstream: \"fastcgi://unix:"),
        "{line}"
    );
    for length in [0, 5, 10_000, 100_000, 3_000_000] {
        let body = "b".repeat(length);
        let (_, got) = ask(
            site.port,
            &format!(
                "POST /?do=upload HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        );
        assert_eq!(got, format!("POST {length}"));
    }
    let first = get(site.port, "/?do=cached").1;
    assert_eq!(get(site.port, "/?do=cached").1, first, "from the cache");
    assert_ne!(get(site.port, "/?do=cached&fresh=1").1, first);
    server.quit();
}

/// A kept connection occupies PHP's only process, so it must not be held for long.
#[test]
fn threads_share_a_single_php_process() {
    let site = Site::new();
    let _php = start_php(&site, 1);
    let server = start_site(&site, 2);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let port = site.port;
            std::thread::spawn(move || {
                let mut client: Connection = connect(port).unwrap();
                (0..20).map(|_| client.get("/?do=pid&fresh=1")).collect::<Vec<String>>()
            })
        })
        .collect();
    let pids: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert_eq!(pids.len(), 160);
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    server.quit();
}

const APPLICATION: &str = "
def application(env, start_response):
    body = env['wsgi.input'].read(int(env.get('CONTENT_LENGTH') or 0))
    start_response('201 Made', [('X-Path', env['PATH_INFO'])])
    return [env['REQUEST_METHOD'].encode(), b' ', body]
";

/// A request on a kept connection overtakes those in the queue of the application: each client must get its part.
#[test]
fn clients_share_the_processes_evenly() {
    const CLIENTS: usize = 64;
    const REQUESTS: usize = 10_000;
    let site = Site::new();
    let _php = start_php(&site, 4);
    let server = start_site(&site, 2);
    let begun = AtomicUsize::new(0);
    let together = Barrier::new(CLIENTS);
    let served: Vec<usize> = std::thread::scope(|scope| {
        let client = || {
            let mut client = site.connect();
            together.wait();
            let next = || begun.fetch_add(1, Ordering::Relaxed) < REQUESTS;
            let served = std::iter::repeat_with(|| next().then(|| client.get("/?do=pid&fresh=1")));
            served.map_while(|pid| pid).count()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(served.iter().sum::<usize>(), REQUESTS);
    let least = served.iter().min().copied().unwrap_or(0);
    assert!(least * CLIENTS * 10 >= REQUESTS * 8, "{served:?}");
    server.quit();
}

#[test]
fn one_application_responds_by_three_protocols() {
    let site = Site::new();
    fs::write(site.path("app.py"), APPLICATION).unwrap();
    let at = |name: &str| site.path(name).display().to_string();
    let mut command = Command::new("uwsgi");
    command.args([
        "--need-app",
        "--die-on-term",
        "--plugin",
        "python3",
        "--wsgi-file",
        &at("app.py"),
    ]);
    command.args(["--uwsgi-socket", &at("uwsgi"), "--scgi-socket", &at("scgi")]);
    command.args(["--fastcgi-socket", &at("fastcgi")]);
    let _uwsgi = Component::start(&mut command, "spawned uWSGI worker");
    let location = |module: &str| {
        let params = ["PATH_INFO $uri", "REQUEST_METHOD $request_method", "QUERY_STRING ''"];
        let more =
            ["CONTENT_LENGTH $content_length if_not_empty", "SERVER_NAME a", "SERVER_PORT 1"];
        let lines = params.iter().chain(&more).map(|text| format!("{module}_param {text};\n"));
        let own = lines.filter(|line| module != "scgi" || !line.contains("CONTENT_LENGTH"));
        let own: String = own.collect();
        format!("location /{module} {{ {module}_pass unix:{{dir}}/{module}; {own} }}")
    };
    let modules = ["uwsgi", "scgi", "fastcgi"];
    let locations: String = modules.into_iter().map(location).collect();
    let user = if is_root() { "user root;" } else { "" };
    site.configure(user, &format!("server {{ listen 127.0.0.1:{{port}}; {locations} }}"));
    let server = site.start();
    server.wait_log("start worker process ");
    for module in modules {
        let (line, body) = get(site.port, &format!("/{module}/x"));
        assert_eq!((line.as_str(), body.as_str()), ("HTTP/1.1 201 Made", "GET "), "{module}");
        for length in [5, 200_000] {
            let body = "b".repeat(length);
            let head =
                format!("POST /{module} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            let (_, got) = ask(site.port, &format!("{head}{body}"));
            assert_eq!(got.len(), 5 + length, "{module}");
        }
    }
    server.quit();
}

#[test]
fn values_of_memcached_are_responses() {
    let site = Site::new();
    let mut command = Command::new("memcached");
    command.args(["-U", "0", "-vv", "-s"]).arg(site.path("memcached"));
    if is_root() {
        command.args(["-u", "root"]);
    }
    let _memcached = Component::start(&mut command, "server listening");
    put(&site.path("memcached"), "/a", "hello");
    put(&site.path("memcached"), "/large", &"x".repeat(500_000));
    let user = if is_root() { "user root;" } else { "" };
    site.configure(
        user,
        "server { listen 127.0.0.1:{port}; location / { set $memcached_key $uri;
            memcached_pass unix:{dir}/memcached; error_page 404 = @absent; }
            location @absent { return 200 absent; } }",
    );
    let server = site.start();
    server.wait_log("start worker process ");
    let mut client = site.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/a"), "hello");
        assert_eq!(client.get("/none"), "absent");
        assert_eq!(client.get("/large").len(), 500_000);
    }
    server.quit();
}

fn put(socket: &Path, key: &str, value: &str) {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    write!(stream, "set {key} 0 0 {}\r\n{value}\r\n", value.len()).unwrap();
    let mut response = String::new();
    BufReader::new(stream).read_line(&mut response).unwrap();
    assert_eq!(response, "STORED\r\n");
}
