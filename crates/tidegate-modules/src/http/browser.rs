//! `modern_browser` and `ancient_browser`: variables that distinguish old browsers from new ones.
//!
//! ```nginx
//! modern_browser  msie 5.5;
//! modern_browser  gecko 1.0.0;
//! modern_browser  unlisted;
//! ancient_browser Links Lynx netscape4;
//! if ($ancient_browser) { rewrite ^ /ancient.html; }
//! ```

mod logic;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use logic::{BrowserAge, BrowserRules};

/// `ngx_http_browser_module`.
pub(crate) struct Browser;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    rules: BrowserRules,
    modern_value: Option<Vec<u8>>,
    ancient_value: Option<Vec<u8>>,
}

/// The settings of a location.
#[derive(Debug)]
struct Settings {
    rules: BrowserRules,
    modern_value: Vec<u8>,
    ancient_value: Vec<u8>,
}

impl Module for Browser {
    type Conf = Conf;
    const NAME: &'static str = "browser";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::replaceable(
            "modern_browser",
            "Value of `modern_browser_value` if the browser is a modern one.",
            |x, out| show(x, BrowserAge::Modern, out),
        ),
        Variable::replaceable(
            "ancient_browser",
            "Value of `ancient_browser_value` if the browser is an ancient one.",
            |x, out| show(x, BrowserAge::Ancient, out),
        ),
        Variable::replaceable(
            "msie",
            "`1` if the browser is any version of Internet Explorer.",
            |x, out| {
                if logic::is_msie(x.request.header(Known::UserAgent).unwrap_or_default()) {
                    out.push(b'1');
                }
                true
            },
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.rules.inherit(&parent.rules);
        if child.modern_value.is_none() {
            child.modern_value.clone_from(&parent.modern_value);
        }
        if child.ancient_value.is_none() {
            child.ancient_value.clone_from(&parent.ancient_value);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let make = |_: &mut _| {
            Ok(Settings {
                rules: conf.rules.clone(),
                modern_value: conf.modern_value.clone().unwrap_or(VALUE_DEFAULT.to_vec()),
                ancient_value: conf.ancient_value.clone().unwrap_or(VALUE_DEFAULT.to_vec()),
            })
        };
        let settings = location.plan.made_of(conf, make)?;
        location.plan.show(&settings);
        location.location.extensions.insert(settings);
        Ok(())
    }
}

/// nginx's default of both values.
const VALUE_DEFAULT: &[u8] = b"1";

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION;

const ROWS: &[Directive<Conf>] = &[
    row(
        "modern_browser",
        CONTEXTS,
        Arity::ONE_OR_TWO,
        "",
        "A browser (`msie`, `gecko`, `opera`, `safari`, `konqueror`) and the version from which on it is modern; \
         `unlisted` for browsers that no directive names.",
        modern,
    ),
    row(
        "ancient_browser",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "",
        "Parts of `User-Agent` by which browsers are ancient; `netscape4` means `^Mozilla/[1-4]`.",
        |conf, args| {
            conf.rules.ancient.extend(args.words().iter().map(|word| word.bytes.clone()));
            Ok(())
        },
    ),
    row(
        "modern_browser_value",
        CONTEXTS,
        Arity::ONE,
        "1",
        "Value of `$modern_browser` for modern browsers.",
        |conf, args| {
            // The last one applies, as in nginx.
            conf.modern_value = Some(args.bytes(0).to_vec());
            Ok(())
        },
    ),
    row(
        "ancient_browser_value",
        CONTEXTS,
        Arity::ONE,
        "1",
        "Value of `$ancient_browser` for ancient browsers.",
        |conf, args| {
            conf.ancient_value = Some(args.bytes(0).to_vec());
            Ok(())
        },
    ),
];

fn modern(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.bytes(0);
    if args.len() == 1 && name == b"unlisted" {
        conf.rules.unlisted_is_modern = true;
        return Ok(());
    }
    let Some(kind) = logic::BrowserKind::of(name) else {
        let shown = args.word(0).display();
        return Err(args.error(0, format!("unknown browser name \"{shown}\"")));
    };
    let Some(version) = logic::parse_version(args.bytes(1)) else {
        let shown = args.word(1).display();
        return Err(args.error(1, format!("invalid browser version \"{shown}\"")));
    };
    conf.rules.modern.push((kind, version));
    Ok(())
}

fn show(x: &mut Exchange, age: BrowserAge, out: &mut Vec<u8>) -> bool {
    let agent = x.request.header(Known::UserAgent).unwrap_or_default();
    let settings = x.location().extensions.of::<Arc<Settings>>();
    let found = settings.map_or(BrowserAge::Ancient, |settings| settings.rules.age(agent));
    if found == age {
        out.extend_from_slice(match (settings, age) {
            (None, _) => VALUE_DEFAULT,
            (Some(settings), BrowserAge::Modern) => &settings.modern_value,
            (Some(settings), BrowserAge::Ancient) => &settings.ancient_value,
        });
    }
    true
}
