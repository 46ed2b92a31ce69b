//! `charset`, `source_charset`, `charset_map`: names the charset of responses and recodes them.
//!
//! ```nginx
//! charset_map koi8-r utf-8 { C0 D18E; C1 D0B0; }
//! charset        utf-8;
//! source_charset koi8-r;
//! ```
//! Between two single-byte charsets the length does not change, so that ranges of the recoded body may be served;
//! to and from UTF-8 it changes, and the response has neither length nor ranges. The response of a subrequest is
//! recoded to the charset of the main request's response.

mod conf;
mod filter;
mod recode;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Kind, once, row};
use tidegate_core::Exchange;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::media_types::MediaTypes;
use conf::{Conf, MapConf, Name};
use filter::CharsetFilter;
use recode::Recoder;

/// `ngx_http_charset_filter_module`.
pub(crate) struct Charset;

impl Module for Charset {
    type Conf = Conf;
    const NAME: &'static str = "charset";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        let inherited = |own: &Option<Name>, outer: &Option<Name>| own.clone().or(outer.clone());
        child.charset = inherited(&child.charset, &parent.charset);
        child.source = inherited(&child.source, &parent.source);
        child.overrides = child.overrides.or(parent.overrides);
        child.types = child.types.take().or_else(|| parent.types.clone());
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let mut maps = HashMap::new();
        for map in &conf.maps {
            if let Err(diagnostic) = add_map(&mut maps, map) {
                plan.diagnostics.push(diagnostic);
            }
        }
        plan.shared::<Maps>().0 = Arc::new(maps);
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let maps = location.plan.shared::<Maps>().0.clone();
        if let (Some(Name::Fixed(to, span)), Some(Name::Fixed(from, _))) =
            (&conf.charset, &conf.source)
            && !to.eq_ignore_ascii_case(from)
            && !maps.contains_key(&key(from, to))
        {
            let (from, to) = (String::from_utf8_lossy(from), String::from_utf8_lossy(to));
            let message =
                format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"");
            return Err(Diagnostic::emerg(message).at(*span));
        }
        let compile = |plan: &mut _| CharsetFilter::compile(conf, maps, plan);
        let filter = location.plan.made_of(conf, compile)?;
        location.plan.show(&filter);
        location.location.extensions.insert(filter.clone());
        location.filter(Box::new(move |x, body| filter.apply(x, body)));
        Ok(())
    }
}

/// Returns the charset that the response will be in, by its present head; `None` if the head will name none.
pub(crate) fn of_response(x: &mut Exchange) -> Option<Vec<u8>> {
    x.location_ref().extensions.of::<Arc<CharsetFilter>>()?.of_response(x)
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION_IF;

const ROWS: &[Directive<Conf>] = &[
    row(
        "charset",
        CONTEXTS,
        Arity::ONE,
        "off",
        "Charset in `Content-Type`; a response in another charset is converted. May be a variable.",
        |conf, args| once(&mut conf.charset, conf::name(args, true)?, args),
    ),
    row(
        "source_charset",
        CONTEXTS,
        Arity::ONE,
        "",
        "Charset of responses before the conversion.",
        |conf, args| once(&mut conf.source, conf::name(args, false)?, args),
    ),
    row(
        "override_charset",
        CONTEXTS,
        Arity::FLAG,
        "off",
        "Whether responses of origins that already name a charset are converted.",
        |conf, args| once(&mut conf.overrides, args.flag(0)?, args),
    ),
    row(
        "charset_types",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::AT_LEAST_ONE,
        "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
        "Media types whose charset is named, beside text/html; `*` for all.",
        |conf, args| MediaTypes::read(&mut conf.types, args),
    ),
    Directive {
        name: "charset_map",
        contexts: Contexts::HTTP,
        args: Arity::TWO,
        kind: Kind::Block,
        default: "",
        doc: "Table between two charsets: codes of one and the other in hexadecimal.",
        has_effect: true,
        set: conf::map,
    },
];

/// Recoders by the lower-case names of their charsets, source first.
type MapTable = HashMap<(Vec<u8>, Vec<u8>), Arc<Recoder>>;

/// The recoders that the locations of one build share.
#[derive(Default)]
struct Maps(Arc<MapTable>);

fn key(from: &[u8], to: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (from.to_ascii_lowercase(), to.to_ascii_lowercase())
}

fn add_map(maps: &mut MapTable, map: &MapConf) -> Result<(), Diagnostic> {
    let (from, to) = (&map.from.bytes, &map.to.bytes);
    if maps.contains_key(&key(from, to)) {
        let (from, to) = (map.from.display(), map.to.display());
        let message = format!("duplicate \"charset_map\" between \"{from}\" and \"{to}\"");
        return Err(Diagnostic::emerg(message).at(map.from.span));
    }
    let (there, back) = Recoder::pair(&map.entries, to.eq_ignore_ascii_case(b"utf-8"))?;
    maps.insert(key(from, to), Arc::new(there));
    maps.insert(key(to, from), Arc::new(back));
    Ok(())
}
