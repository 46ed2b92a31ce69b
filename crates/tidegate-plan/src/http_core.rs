//! The core module: directives and variables of servers and locations.

pub mod conf;
mod error_logs;
pub mod listen;
mod location_rows;
mod prepare;
mod server_rows;
#[cfg(test)]
mod tests;
pub(crate) mod variables;

use tidegate_conf::Diagnostic;
use tidegate_core::settings::{PlainConf, PlainServerConf};
use tidegate_core::variables::Variable;

use crate::module::{BlockInfo, BlockRow, Contexts, Directive, Module};

pub use conf::Conf;
pub use location_rows::temp_path;
pub use prepare::{server_settings, settings};

/// `ngx_http_core_module`.
pub struct HttpCore;

impl Module for HttpCore {
    type Conf = Conf;
    const NAME: &'static str = "http_core";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[
        &PlainConf::rows(),
        &PlainServerConf::rows(),
        server_rows::BLOCK_ROWS,
        server_rows::ROWS,
        location_rows::ROWS,
    ];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;

    const BLOCKS: &'static [BlockRow] = &[
        BlockRow { name: "http", within: Contexts::MAIN, opens: Contexts::HTTP },
        BlockRow { name: "server", within: Contexts::HTTP, opens: Contexts::SERVER },
        BlockRow { name: "server", within: Contexts::STREAM, opens: Contexts::STREAM_SERVER },
        BlockRow { name: "location", within: Contexts::SERVER_LOCATION, opens: Contexts::LOCATION },
        BlockRow {
            name: "limit_except",
            within: Contexts::LOCATION,
            opens: Contexts::LIMIT_EXCEPT,
        },
    ];

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        if let (Some(root), Some(name)) = (&mut conf.root, block.args.last()) {
            // The modifier may be written without a space before the name.
            let modifier = match &name.bytes[..] {
                _ if block.args.len() > 1 => 0,
                [b'=', ..] => 1,
                [b'^', b'~', ..] => 2,
                _ => 0,
            };
            root.alias_length = name.bytes.len() - modifier;
            root.alias_regex = block.args[0].bytes.starts_with(b"~");
        }
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        conf::inherit(child, parent);
    }
}
