//! `admin_socket`: a server that the program adds to those of the configuration. Like any other it is a `server` block:
//!
//! ```nginx
//! server {
//!     listen unix:/run/tidegate.sock;
//!     access_log off;
//!     location /api/ { api write=on; }
//!     location = /metrics { metrics; }
//!     location / { return 404; }
//! }
//! ```
//! It is in an `http` block of its own, which has nothing in it, so that rules of access, limits and logs of the `http`
//! block do not apply to it. Then it is moved to the servers of the `http` block, behind all others.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Block, Contexts, Diagnostic, Span, Statement, Word};
use tidegate_core::client::Address;
use tidegate_core::listen::SocketOptions;
use tidegate_core::main_settings::AdminSocket;
use tidegate_core::settings::full_path;

use crate::http_core::HttpCore;
use crate::module::BlockRow;
use crate::outline::{Outline, Outliner};

/// Adds the server of a socket to the `http` block, or adds that block.
///
/// # Errors
/// The diagnostics of what was added: a path that is too long, or that a `listen` has as well.
pub(crate) fn add(
    outliner: &mut Outliner<'_>,
    root: &mut Outline,
    socket: &AdminSocket,
    prefix: &str,
) -> Vec<Diagnostic> {
    let path = full_path(prefix, &socket.path).to_string_lossy().into_owned();
    if let Some(found) = taken(root, socket, &path) {
        return vec![found];
    }
    let statements = [server(&path, socket.span)];
    let mut http = outliner.added(root, &HTTP, &statements, socket.span);
    if let Some(listens) = http.children.iter_mut().find_map(Outline::listens_mut) {
        for listen in listens {
            listen.socket =
                SocketOptions { unix_mode: Some(socket.mode), ..SocketOptions::default() };
        }
    }
    match root.children.iter_mut().find(|block| block.name == HTTP.name) {
        Some(block) => block.children.append(&mut http.children),
        None => root.children.push(http),
    }
    std::mem::take(&mut outliner.diagnostics)
}

const HTTP: BlockRow = BlockRow { name: "http", within: Contexts::MAIN, opens: Contexts::HTTP };

/// Refuses the socket of a `listen`: its clients would reach a server of the configuration, or this one by its names.
fn taken(root: &Outline, socket: &AdminSocket, path: &str) -> Option<Diagnostic> {
    let servers = root.children.iter().flat_map(|block| block.blocks("server"));
    let mut listens = servers.filter_map(|server| server.conf::<HttpCore>());
    let is_taken = listens.any(|conf| {
        conf.listens
            .iter()
            .any(|listen| matches!(&listen.address, Address::Unix(one) if one == path))
    });
    let message = format!("\"admin_socket\" and a \"listen\" have the same socket \"{path}\"");
    is_taken.then(|| Diagnostic::emerg(message).at(socket.span))
}

/// Makes the statement of the server.
fn server(path: &str, span: Span) -> Statement {
    let listen = format!("unix:{path}");
    block(
        &["server"],
        vec![
            simple(&["listen", &listen], span),
            simple(&["access_log", "off"], span),
            block(&["location", "/api/"], vec![simple(&["api", "write=on"], span)], span),
            block(&["location", "=", "/metrics"], vec![simple(&["metrics"], span)], span),
            block(&["location", "/"], vec![simple(&["return", "404"], span)], span),
        ],
        span,
    )
}

fn simple(words: &[&str], span: Span) -> Statement {
    let mut words =
        words.iter().map(|text| Word { bytes: text.as_bytes().to_vec(), span, quoted: false });
    let name = words.next().unwrap_or_else(|| Word { bytes: Vec::new(), span, quoted: false });
    Statement { name, args: words.collect(), block: None, span }
}

fn block(words: &[&str], statements: Vec<Statement>, span: Span) -> Statement {
    let block = Block { statements: Arc::new(statements), open: span, close: span };
    Statement { block: Some(block), ..simple(words, span) }
}
