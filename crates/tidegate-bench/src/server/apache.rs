//! Apache as in the study on blocking work: a process for each connection (prefork), PHP in each of them
//! (mod_php).

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) const CONFIG_FILE: &str = "apache.conf";

/// Writes the configuration.
///
/// # Errors
/// `NotFound` without mod_php or the module prefork.
pub(super) fn write_config(directory: &Path, listen: SocketAddr) -> io::Result<()> {
    let modules = MODULE_DIRECTORIES.iter().map(Path::new).find(|directory| directory.is_dir());
    let missing = |what: &str| io::Error::new(io::ErrorKind::NotFound, format!("no {what}"));
    let modules = modules.ok_or_else(|| missing("modules of Apache"))?;
    let php = php_module(modules)?.ok_or_else(|| missing("mod_php"))?;
    let (modules, php, shown) = (modules.display(), php.display(), directory.display());
    // It never serves as root, so its user needs access to the directory.
    let user = match rustix::process::geteuid().is_root() {
        true => {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
            "User www-data\nGroup www-data\n"
        }
        false => "",
    };
    let config = format!(
        "ServerRoot {shown}\nServerName localhost\nListen {listen}\n{user}\
         PidFile {shown}/apache.pid\nErrorLog {shown}/error.log\n\
         LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule php_module {php}\n\
         ServerLimit {PROCESSES}\nMaxRequestWorkers {PROCESSES}\nStartServers {PROCESSES}\n\
         MaxSpareServers {PROCESSES}\nMaxConnectionsPerChild 0\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60\n\
         DocumentRoot {shown}/html\n\
         <FilesMatch \\.php$>\n    SetHandler application/x-httpd-php\n</FilesMatch>\n"
    );
    fs::write(directory.join(CONFIG_FILE), config)
}

/// `libphp8.2.so` and the like.
fn php_module(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = None;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libphp") && name.ends_with(".so") {
            found = found.max(Some(path));
        }
    }
    Ok(found)
}

const MODULE_DIRECTORIES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/etc/httpd/modules"];
/// More than there are connections.
const PROCESSES: usize = 128;
