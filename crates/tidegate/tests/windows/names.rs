//! Names other than a file's own, over the wire: each with its response, as a table.

use std::path::Path;
use std::time::Instant;

use super::files::SETTLED;
use super::server::Server;

const CONFIGURATION: &str = "
worker_processes 1;
error_log logs/error.log info;
events { }
http {
    access_log off;
    merge_slashes off;
    client_body_temp_path temp/body;
    server {
        listen 127.0.0.1:{port};
        root html;
        location / { }
        location /protected-directory/ { deny all; }
        location ~ \\.php$ { return 403; }
        location /list/ { alias html/; autoindex on; }
        location /images/ { alias html/pictures/; }
        location /dav/ { dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on; }
        location /dav/kept/ { deny all; }
        location ~ ^/named/(.*)$ { alias html/$1; }
    }
}
";

/// Its description, the request's head without its end, and the right statuses.
type Attack = (&'static str, String, &'static [u16]);

/// Short names of the files made by `prepare`.
struct Short {
    directory: String,
    secret: String,
    file: String,
    picture: String,
    written: String,
}

fn prepare(directory: &Path) {
    let html = directory.join("html");
    // Short names: Wine 8 has none for files whose path is longer than 268 characters.
    let deep = "d/".repeat(55);
    for name in ["protected-directory", "pictures", "dav/kept", "directory with spaces", &deep] {
        std::fs::create_dir_all(html.join(name)).unwrap();
    }
    for name in [
        "index.html",
        "index.php",
        "a long name.html",
        "tilde~1.txt",
        "naïve.txt",
        "com10",
        "protected-directory/secret.txt",
        "pictures/a-picture.png",
        "dav/kept/secret.txt",
        "dav/a long name.txt",
        "directory with spaces/x.txt",
        &format!("{deep}x.txt"),
    ] {
        std::fs::write(html.join(name), format!("content of {name}")).unwrap();
    }
}

/// Returns the 8.3 name of the last part of a path, as the system gives it.
fn short_name(path: &Path) -> String {
    let short = tidegate_os::path::short(path).unwrap();
    short.file_name().unwrap().to_string_lossy().into_owned()
}

impl Short {
    fn of(html: &Path) -> Short {
        let name = |path: &str| {
            let short = short_name(&html.join(path));
            assert!(!path.ends_with(&short), "no short name of {path}: {short}");
            short
        };
        Short {
            directory: name("protected-directory"),
            secret: short_name(&html.join("protected-directory/secret.txt")),
            file: name("a long name.html"),
            picture: name("pictures/a-picture.png"),
            written: name("dav/a long name.txt"),
        }
    }
}

#[test]
fn files_are_served_under_their_own_names_only() {
    let server = Server::start(CONFIGURATION, prepare);
    let html = server.directory.path().join("html");
    let short = Short::of(&html);
    let mut attacks = own_names();
    attacks.extend(aliases(&short));
    attacks.extend(spellings());
    attacks.extend(no_names());
    attacks.extend(writes(&short));
    let mut wrong = Vec::new();
    for attack @ (name, head, _) in &attacks {
        let status = status_of(&server, attack, &mut wrong);
        let line: String = head.lines().next().unwrap_or_default().chars().take(70).collect();
        println!("{name:<34} {status}  {line}");
    }
    // Cached objects give the same responses.
    attacks.retain(|(_, head, _)| head.starts_with("GET"));
    let begun = Instant::now();
    while wrong.is_empty() && begun.elapsed() < SETTLED {
        for attack in &attacks {
            status_of(&server, attack, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        std::fs::read(html.join("dav/kept/secret.txt")).unwrap(),
        b"content of dav/kept/secret.txt"
    );
    server.quit();
}

/// Returns the status of the response, and records it if it is wrong.
fn status_of(server: &Server, attack: &Attack, wrong: &mut Vec<String>) -> u16 {
    let (name, head, expected) = attack;
    let body = if head.starts_with("PUT") { "x" } else { "" };
    let request = format!("{head}Host: localhost\r\nConnection: close\r\n\r\n{body}");
    let (status, response) = server.request(request.as_bytes());
    let leaked = String::from_utf8_lossy(&response).contains("content of protected-directory");
    if !expected.contains(&status) || leaked {
        wrong.push(format!("{name}: {status}, expected {expected:?}"));
    }
    status
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\n")
}

fn put(target: &str) -> String {
    format!("PUT {target} HTTP/1.1\r\nContent-Length: 1\r\n")
}

fn delete(target: &str) -> String {
    format!("DELETE {target} HTTP/1.1\r\n")
}

fn to(method: &str, from: &str, target: &str) -> String {
    format!("{method} {from} HTTP/1.1\r\nDestination: {target}\r\n")
}

/// Returns requests for files under their own names.
fn own_names() -> Vec<Attack> {
    let deep = "d/".repeat(55);
    vec![
        ("own name", get("/index.html"), &[200]),
        ("own name with spaces", get("/a%20long%20name.html"), &[200]),
        ("own name with a tilde", get("/tilde~1.txt"), &[200]),
        ("own name in UTF-8", get("/na%C3%AFve.txt"), &[200]),
        ("own name like a device's", get("/com10"), &[200]),
        ("own name below 55 directories", get(&format!("/{deep}x.txt")), &[200]),
        ("own name by an alias", get("/images/a-picture.png"), &[200]),
        ("own name by a variable", get("/named/index.html"), &[200]),
    ]
}

/// Returns requests for short names, as the system gives them.
fn aliases(short: &Short) -> Vec<Attack> {
    let Short { directory, secret, file, picture, .. } = short;
    vec![
        ("protected directory", get("/protected-directory/secret.txt"), &[403]),
        ("short name of a directory", get(&format!("/{directory}/secret.txt")), &[404]),
        (
            "short name of a directory, small",
            get(&format!("/{}/secret.txt", directory.to_lowercase())),
            &[404],
        ),
        ("short names of both", get(&format!("/{directory}/{secret}")), &[404]),
        ("short name of a file", get(&format!("/{file}")), &[404]),
        ("short name by an alias", get(&format!("/images/{picture}")), &[404]),
        ("short name by a variable", get(&format!("/named/{file}")), &[404]),
        ("short name of a directory, its index", get(&format!("/{directory}/")), &[404]),
        ("own name of a directory, listed", get("/list/pictures/"), &[200]),
        ("short name of a directory, listed", get(&format!("/list/{directory}/")), &[404]),
        ("other case of a directory, listed", get("/list/Pictures/"), &[404]),
        ("stream of a directory, listed", get("/list/pictures::$INDEX_ALLOCATION/"), &[404]),
    ]
}

/// Cases, ends, streams and slashes.
fn spellings() -> Vec<Attack> {
    vec![
        ("other case of a directory", get("/PROTECTED-DIRECTORY/secret.txt"), &[404]),
        ("other case of one letter", get("/protected-Directory/secret.txt"), &[404]),
        ("other case of an extension", get("/index.PHP"), &[404]),
        ("other case by a variable", get("/named/INDEX.HTML"), &[404]),
        ("dot at the end", get("/index.php."), &[404]),
        ("dots at the end", get("/index.php..."), &[404]),
        ("space at the end", get("/index.php%20"), &[404]),
        ("space and dot", get("/index.php%20."), &[404]),
        ("dot behind a directory", get("/protected-directory./secret.txt"), &[404]),
        ("space behind a directory", get("/protected-directory%20/secret.txt"), &[404]),
        ("default stream", get("/index.php::$DATA"), &[404]),
        ("named stream", get("/index.php:stream"), &[404]),
        ("empty stream", get("/index.php:"), &[404]),
        (
            "index stream of a directory",
            get("/protected-directory:$I30:$INDEX_ALLOCATION/secret.txt"),
            &[404],
        ),
        ("backslash", get("/protected-directory%5Csecret.txt"), &[404]),
        ("backslash at the begin", get("/%5Cprotected-directory%5Csecret.txt"), &[404]),
        ("up by backslash", get("/pictures/..%5Cprotected-directory%5Csecret.txt"), &[404]),
        ("up and out by backslash", get("/..%5C..%5Cconf%5Cnginx.conf"), &[404]),
        ("up and out", get("/../conf/nginx.conf"), &[400]),
        ("two slashes", get("/protected-directory//secret.txt"), &[403]),
        ("two slashes at the begin", get("//protected-directory/secret.txt"), &[404]),
        ("two slashes at the end", get("/pictures//"), &[404]),
        ("slash behind a file", get("/index.html/"), &[404]),
    ]
}

/// Devices, drives, and what no name may hold.
fn no_names() -> Vec<Attack> {
    let (long, many) = ("n".repeat(256), "a/".repeat(8000));
    vec![
        ("console", get("/con"), &[404]),
        ("null device", get("/nul"), &[404]),
        ("null device with extension", get("/NUL.txt"), &[404]),
        ("null device in a directory", get("/pictures/nul"), &[404]),
        ("printer", get("/prn.tar.gz"), &[404]),
        ("serial port", get("/com1"), &[404]),
        ("serial port, superscript", get("/COM%C2%B2.log"), &[404]),
        ("parallel port with a space", get("/lpt1%20.txt"), &[404]),
        ("console input", get("/conin$"), &[404]),
        ("device with a colon", get("/aux:"), &[404]),
        ("drive", get("/c:/windows/win.ini"), &[404]),
        ("drive by a variable", get("/named/c:/windows/win.ini"), &[404]),
        ("UNC by a variable", get("/named///127.0.0.1/c$/x"), &[404]),
        ("verbatim prefix", get("/%5C%5C%3F%5CC:%5Cwindows%5Cwin.ini"), &[404]),
        ("device prefix", get("/%5C%5C.%5CC:%5Cwindows%5Cwin.ini"), &[404]),
        ("NUL byte", get("/index.html%00.txt"), &[400, 404]),
        ("control character", get("/index.html%01"), &[404]),
        ("wildcards", get("/index.ht%3F%2A"), &[404]),
        ("wildcards of DOS", get("/index.ht%3C%3E"), &[404]),
        ("quotation mark", get("/index%22html"), &[404]),
        ("no UTF-8", get("/na%EFve.txt"), &[404]),
        ("overlong UTF-8", get("/protected-directory%C0%AFsecret.txt"), &[404]),
        ("surrogate", get("/%ED%A0%80"), &[404]),
        ("wide letters", get("/%EF%BD%89ndex.html"), &[404]),
        ("decomposed letter", get("/nai%CC%88ve.txt"), &[404]),
        ("name of 256 letters", get(&format!("/{long}")), &[404]),
        ("path of 8000 names", get(&format!("/{many}")), &[404, 414]),
    ]
}

/// Requests that would make or change a file; in this order.
fn writes(short: &Short) -> Vec<Attack> {
    let written = &short.written;
    vec![
        ("PUT own name", put("/dav/new.txt"), &[201]),
        ("PUT to a device", put("/dav/nul.txt"), &[409]),
        ("PUT to a stream", put("/dav/new.txt:stream"), &[409]),
        ("PUT with a dot at the end", put("/dav/new.txt."), &[409]),
        ("PUT over another case", put("/dav/NEW.TXT"), &[409]),
        ("PUT over a short name", put(&format!("/dav/{written}")), &[409]),
        ("PUT below another case", put("/dav/KEPT/secret.txt"), &[409]),
        ("PUT below a new directory, backslash", put("/dav/a/b%5Cc"), &[409]),
        (
            "MKCOL with a space at the end",
            "MKCOL /dav/directory%20/ HTTP/1.1\r\n".to_owned(),
            &[409],
        ),
        ("DELETE by a short name", delete(&format!("/dav/{written}")), &[404, 409]),
        ("DELETE by another case", delete("/dav/Kept/secret.txt"), &[404, 409]),
        ("COPY to another case", to("COPY", "/dav/new.txt", "/dav/KEPT/secret.txt"), &[409]),
        ("MOVE from another case", to("MOVE", "/dav/NEW.txt", "/dav/other.txt"), &[404, 409]),
        ("DELETE own name", delete("/dav/new.txt"), &[204]),
    ]
}
