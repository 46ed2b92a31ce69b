//! Other servers to compare with, where they are installed: the caches Varnish and Apache Traffic Server, each
//! with the smallest configuration that makes it stream objects in flight, Apache with PHP, and HAProxy.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::{apache, haproxy};
use crate::config::Scenario;
use crate::raw::{self, Work};

/// The kind of a program, which decides how it is configured and stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// nginx, or a program that reads its configuration.
    Nginx,
    Varnish,
    TrafficServer,
    /// This program itself, with the least possible work.
    Raw(Work),
    /// Apache with PHP inside, and a process for each connection.
    Apache,
    HaProxy,
}

impl Kind {
    /// The option that prints the version.
    pub(crate) fn version_option(self) -> &'static str {
        match self {
            Kind::Nginx | Kind::Apache | Kind::HaProxy => "-v",
            Kind::Varnish | Kind::TrafficServer | Kind::Raw(_) => "-V",
        }
    }

    /// The path in distributions, then the name for PATH.
    pub(crate) fn places(self) -> &'static [&'static str] {
        match self {
            Kind::Nginx => &["/usr/sbin/nginx", "/usr/local/sbin/nginx", "nginx"],
            Kind::Varnish => &["/usr/sbin/varnishd", "varnishd"],
            Kind::TrafficServer => &["/usr/bin/traffic_server", "traffic_server"],
            Kind::Raw(_) => &[],
            Kind::Apache => &["/usr/sbin/apache2", "/usr/sbin/httpd"],
            Kind::HaProxy => &["/usr/sbin/haproxy", "haproxy"],
        }
    }
}

/// Writes the configuration: for a cache, one that streams and sends one request to the origin. Nothing for nginx.
pub(crate) fn write_config(
    kind: Kind,
    directory: &Path,
    listen: SocketAddr,
    origin: SocketAddr,
    scenario: Scenario,
) -> io::Result<()> {
    match kind {
        Kind::Nginx | Kind::Raw(_) => Ok(()),
        Kind::Varnish => fs::write(directory.join(VARNISH_FILE), varnish_config(origin)),
        Kind::Apache => apache::write_config(directory, listen),
        Kind::HaProxy => haproxy::write_config(directory, listen, origin, scenario),
        Kind::TrafficServer => {
            for (name, content) in traffic_server_config(directory, listen, origin) {
                let file = directory.join(name);
                if let Some(directory) = file.parent() {
                    fs::create_dir_all(directory)?;
                }
                fs::write(file, content)?;
            }
            Ok(())
        }
    }
}

/// Adds the arguments that make the program use that configuration and stay in the foreground.
pub(super) fn add_arguments(
    kind: Kind,
    command: &mut Command,
    directory: &Path,
    listen: SocketAddr,
    origin: SocketAddr,
) {
    match kind {
        Kind::Nginx => {}
        Kind::Raw(work) => raw::add_arguments(command, work, listen, origin),
        Kind::Varnish => {
            command.args(["-F", "-j", "none", "-s", "default,1g", "-a"]).arg(listen.to_string());
            command.arg("-n").arg(directory.join("varnish"));
            command.arg("-f").arg(directory.join(VARNISH_FILE));
        }
        Kind::Apache => {
            // It ends its whole process group, which must not contain this process.
            command.process_group(0);
            command.args(["-D", "FOREGROUND", "-f"]).arg(directory.join(apache::CONFIG_FILE));
        }
        Kind::HaProxy => {
            // In the foreground.
            command.args(["-db", "-f"]).arg(directory.join(haproxy::CONFIG_FILE));
        }
        Kind::TrafficServer => {
            let mut root = std::ffi::OsString::from("--run-root=");
            root.push(directory);
            command.arg(root);
        }
    }
}

/// Its defaults stream and coalesce.
fn varnish_config(origin: SocketAddr) -> String {
    let (host, port) = (origin.ip(), origin.port());
    format!("vcl 4.1;\nbackend origin {{ .host = \"{host}\"; .port = \"{port}\"; }}\n")
}

/// Writes the files below the directory. The settings of its manual for reading while another client writes are on;
/// one thread, since it has one processor.
fn traffic_server_config(
    directory: &Path,
    listen: SocketAddr,
    origin: SocketAddr,
) -> Vec<(&'static str, String)> {
    let root = directory.display();
    let (host, port) = (listen.ip(), listen.port());
    let directories = [
        ("prefix", ""),
        ("exec_prefix", ""),
        ("bindir", ""),
        ("sbindir", ""),
        ("sysconfdir", "/conf"),
        ("datadir", ""),
        ("includedir", ""),
        ("libdir", ""),
        ("libexecdir", ""),
        ("localstatedir", "/temp"),
        ("runtimedir", "/temp"),
        ("logdir", "/temp"),
        ("cachedir", "/cache"),
    ];
    let directories = directories.map(|(name, directory)| format!("{name}: {root}{directory}\n"));
    let records = [
        format!("http.server_ports STRING {port}:ip-in={host}"),
        "admin.user_id STRING #-1".to_owned(),
        format!("body_factory.template_sets_dir STRING {root}/conf"),
        "cache.enable_read_while_writer INT 1".to_owned(),
        "cache.max_doc_size INT 0".to_owned(),
        "http.background_fill_active_timeout INT 0".to_owned(),
        "http.background_fill_completed_threshold FLOAT 0.0".to_owned(),
        // Requests that arrive before the head wait for it and do not go to the origin.
        "http.cache.open_read_retry_time INT 10".to_owned(),
        "http.cache.max_open_read_retries INT 500".to_owned(),
        "http.cache.open_write_fail_action INT 5".to_owned(),
        "exec_thread.autoconfig INT 0".to_owned(),
        "exec_thread.limit INT 1".to_owned(),
        "log.logging_enabled INT 0".to_owned(),
    ];
    let records = records.map(|record| format!("CONFIG proxy.config.{record}\n"));
    let allow =
        "ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n";
    vec![
        ("runroot.yaml", directories.concat()),
        ("conf/records.config", records.concat()),
        ("conf/storage.config", format!("{root}/cache 1G\n")),
        ("conf/remap.config", format!("map / http://{origin}/\n")),
        ("conf/ip_allow.yaml", allow.to_owned()),
        ("conf/plugin.config", String::new()),
        ("conf/volume.config", String::new()),
        ("conf/hosting.config", String::new()),
        ("conf/ssl_multicert.config", String::new()),
    ]
}

const VARNISH_FILE: &str = "default.vcl";
