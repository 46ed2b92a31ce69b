//! A server on loopback, which needs no test bed.

use std::path::Path;
use std::process::{Child, Command};

use super::client::Node;

/// A server with a directory of its own, which ends when this is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) node: Node,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server that listens at `address`, which `http`, the content of that block, has to say.
///
/// # Errors
/// In words: the directory or the program.
pub(super) fn start(
    binary: &Path,
    directory: &Path,
    address: &'static str,
    http: &str,
) -> Result<Server, String> {
    let text = format!(
        "daemon off; master_process off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log notice;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n\
         access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; keepalive_requests 10000000;\n\
         {http}\n}}\n",
        dir = directory.display()
    );
    let shown = directory.display();
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(directory.join("nginx.conf"), text));
    written.map_err(|error| format!("{shown}: {error}"))?;
    let mut command = Command::new(binary);
    command.arg("-p").arg(directory).args(["-c", "nginx.conf"]);
    let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok(Server { child, node: Node::new(address) })
}
