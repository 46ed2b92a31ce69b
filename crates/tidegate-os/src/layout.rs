//! Default paths, for what neither the command line nor the configuration sets: what `configure` decides for nginx, as
//! one table. The environment variable `TIDEGATE_LAYOUT` chooses a row when the program is built; without it Linux gets
//! Debian's, so that the program can replace that package, and Windows that of nginx for Windows.
//!
//! ```text
//! TIDEGATE_LAYOUT=fedora cargo build --release --package tidegate
//! ```

/// Built-in paths and names. Relative paths are below the prefix.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The value of `TIDEGATE_LAYOUT`.
    pub name: &'static str,
    /// The prefix, without a slash at its end; empty: the current directory.
    pub prefix: &'static str,
    /// The program's file.
    pub program: &'static str,
    /// The directory of modules.
    pub modules: &'static str,
    /// `-c`
    pub conf: &'static str,
    /// `-e`, and `error_log`
    pub error_log: &'static str,
    /// `access_log`
    pub access_log: &'static str,
    /// `pid`
    pub pid: &'static str,
    /// `lock_file`
    pub lock: &'static str,
    /// `user`
    pub user: &'static str,
    /// The second argument of `user`.
    pub group: &'static str,
    /// `client_body_temp_path`
    pub body_temp: &'static str,
    /// `proxy_temp_path`
    pub proxy_temp: &'static str,
    /// `fastcgi_temp_path`
    pub fastcgi_temp: &'static str,
    /// `uwsgi_temp_path`
    pub uwsgi_temp: &'static str,
    /// `scgi_temp_path`
    pub scgi_temp: &'static str,
}

/// The package of Debian and Ubuntu.
pub const DEBIAN: Layout = Layout {
    name: "debian",
    prefix: "/usr/share/nginx",
    program: "/usr/sbin/nginx",
    modules: "/usr/lib/nginx/modules",
    conf: "/etc/nginx/nginx.conf",
    error_log: "/var/log/nginx/error.log",
    access_log: "/var/log/nginx/access.log",
    pid: "/run/nginx.pid",
    lock: "/var/lock/nginx.lock",
    user: "nobody",
    group: "nogroup",
    body_temp: "/var/lib/nginx/body",
    proxy_temp: "/var/lib/nginx/proxy",
    fastcgi_temp: "/var/lib/nginx/fastcgi",
    uwsgi_temp: "/var/lib/nginx/uwsgi",
    scgi_temp: "/var/lib/nginx/scgi",
};

/// The packages of nginx.org.
pub const NGINX_ORG: Layout = Layout {
    name: "nginx.org",
    prefix: "/etc/nginx",
    program: "/usr/sbin/nginx",
    modules: "/usr/lib/nginx/modules",
    conf: "/etc/nginx/nginx.conf",
    error_log: "/var/log/nginx/error.log",
    access_log: "/var/log/nginx/access.log",
    pid: "/run/nginx.pid",
    lock: "/run/nginx.lock",
    user: "nginx",
    group: "nginx",
    body_temp: "/var/cache/nginx/client_temp",
    proxy_temp: "/var/cache/nginx/proxy_temp",
    fastcgi_temp: "/var/cache/nginx/fastcgi_temp",
    uwsgi_temp: "/var/cache/nginx/uwsgi_temp",
    scgi_temp: "/var/cache/nginx/scgi_temp",
};

/// The package of Fedora and its derivatives.
pub const FEDORA: Layout = Layout {
    name: "fedora",
    prefix: "/usr/share/nginx",
    program: "/usr/sbin/nginx",
    modules: "/usr/lib64/nginx/modules",
    conf: "/etc/nginx/nginx.conf",
    error_log: "/var/log/nginx/error.log",
    access_log: "/var/log/nginx/access.log",
    pid: "/run/nginx.pid",
    lock: "/run/lock/subsys/nginx",
    user: "nginx",
    group: "nginx",
    body_temp: "/var/lib/nginx/tmp/client_body",
    proxy_temp: "/var/lib/nginx/tmp/proxy",
    fastcgi_temp: "/var/lib/nginx/tmp/fastcgi",
    uwsgi_temp: "/var/lib/nginx/tmp/uwsgi",
    scgi_temp: "/var/lib/nginx/tmp/scgi",
};

/// Alpine's package, whose `logs` below the prefix is a link to `/var/log/nginx`.
pub const ALPINE: Layout = Layout {
    name: "alpine",
    prefix: "/var/lib/nginx",
    program: "/usr/sbin/nginx",
    modules: "/usr/lib/nginx/modules",
    conf: "/etc/nginx/nginx.conf",
    error_log: "logs/error.log",
    access_log: "logs/access.log",
    pid: "/run/nginx/nginx.pid",
    lock: "/run/nginx/nginx.lock",
    user: "nginx",
    group: "nginx",
    body_temp: "/var/lib/nginx/tmp/client_body",
    proxy_temp: "/var/lib/nginx/tmp/proxy",
    fastcgi_temp: "/var/lib/nginx/tmp/fastcgi",
    uwsgi_temp: "/var/lib/nginx/tmp/uwsgi",
    scgi_temp: "/var/lib/nginx/tmp/scgi",
};

/// Everything below one directory: nginx's defaults.
pub const PREFIX: Layout = Layout {
    name: "prefix",
    prefix: "/usr/local/nginx",
    program: "sbin/nginx",
    modules: "modules",
    conf: "conf/nginx.conf",
    error_log: "logs/error.log",
    access_log: "logs/access.log",
    pid: "logs/nginx.pid",
    lock: "logs/nginx.lock",
    user: "nobody",
    group: "nobody",
    body_temp: "client_body_temp",
    proxy_temp: "proxy_temp",
    fastcgi_temp: "fastcgi_temp",
    uwsgi_temp: "uwsgi_temp",
    scgi_temp: "scgi_temp",
};

/// The prefix is the current directory, as in nginx for Windows.
pub const HERE: Layout = Layout { name: "here", prefix: "", program: "nginx.exe", ..PREFIX };

/// All rows.
pub const ALL: [&Layout; 6] = [&DEBIAN, &NGINX_ORG, &FEDORA, &ALPINE, &PREFIX, &HERE];

/// The row that the program was built with.
pub const CHOSEN: &Layout = match option_env!("TIDEGATE_LAYOUT") {
    Some(name) => named(name),
    None if cfg!(windows) => &HERE,
    None => &DEBIAN,
};

/// Returns the row of a name; an unknown name stops the build.
const fn named(name: &str) -> &'static Layout {
    let mut index = 0;
    while index < ALL.len() {
        if same(name.as_bytes(), ALL[index].name.as_bytes()) {
            return ALL[index];
        }
        index += 1;
    }
    panic!("TIDEGATE_LAYOUT is none of debian, nginx.org, fedora, alpine, prefix and here")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

impl Layout {
    /// Returns names and values as arguments of nginx's `configure`, without `--`, in the order of its packages.
    pub fn arguments(&self) -> [(&'static str, &'static str); 15] {
        [
            ("prefix", self.prefix),
            ("sbin-path", self.program),
            ("modules-path", self.modules),
            ("conf-path", self.conf),
            ("error-log-path", self.error_log),
            ("http-log-path", self.access_log),
            ("pid-path", self.pid),
            ("lock-path", self.lock),
            ("http-client-body-temp-path", self.body_temp),
            ("http-proxy-temp-path", self.proxy_temp),
            ("http-fastcgi-temp-path", self.fastcgi_temp),
            ("http-uwsgi-temp-path", self.uwsgi_temp),
            ("http-scgi-temp-path", self.scgi_temp),
            ("user", self.user),
            ("group", self.group),
        ]
    }

    /// Returns the prefix of relative paths, with a slash at its end.
    pub fn prefix(&self) -> Vec<u8> {
        let mut prefix = match self.prefix {
            "" => {
                let here = std::env::current_dir().unwrap_or_default();
                crate::path::as_written(here.as_os_str().as_encoded_bytes())
            }
            prefix => prefix.as_bytes().to_vec(),
        };
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_chooses_its_row() {
        for layout in ALL {
            assert_eq!(named(layout.name), layout);
        }
        assert!(!same(b"prefix", b"prefixes") && !same(b"", b"here"));
    }

    #[test]
    fn packages_have_full_paths() {
        for layout in [&DEBIAN, &NGINX_ORG, &FEDORA, &ALPINE] {
            for (name, value) in layout.arguments() {
                let relative = matches!(name, "user" | "group") || value.starts_with("logs/");
                assert!(relative || value.starts_with('/'), "{} {name} {value}", layout.name);
            }
        }
        assert_eq!(PREFIX.prefix(), b"/usr/local/nginx/");
        assert!(HERE.prefix().ends_with(b"/"));
    }
}
