//! Starts with too little of what the system gives: a server serves, or says why it does not and leaves nothing behind.

use std::process::Command;

use crate::signals::until;
use crate::support::{Server, Site};

const ADDRESSES: usize = 20;

/// A command that may open this many descriptors.
fn limited(site: &Site, descriptors: usize) -> Command {
    let own = site.command();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
    command.arg(own.get_program()).args(own.get_args());
    command
}

#[test]
fn a_start_without_enough_descriptors_says_so() {
    let site = Site::new();
    let unix: String =
        (0..ADDRESSES).map(|number| format!("listen unix:{{dir}}/s{number};\n")).collect();
    let servers = format!("server {{ listen 127.0.0.1:{{port}};\n{unix} return 200 old; }}");
    for main in ["worker_processes 2;", "worker_processes 2; master_process off;"] {
        site.configure(main, &servers);
        // Each step of the start lacks them once: the sockets, the signals, the worker and its threads, which share sockets.
        for descriptors in (8..2 * ADDRESSES).step_by(3) {
            let output = limited(&site, descriptors).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{descriptors}: {text}");
            assert!(text.contains("(24: Too many open files)"), "{descriptors}: {text}");
            assert!(!text.contains("panicked"), "{descriptors}: {text}");
            let left = ["nginx.pid", "s0", "s19"].map(|name| site.path(name).exists());
            assert_eq!(left, [false; 3], "{descriptors}: {text}");
        }
        let server = Server::of(limited(&site, 10 * ADDRESSES));
        assert_eq!(until(|| site.try_get(site.port)), "old");
        server.quit();
    }
}
