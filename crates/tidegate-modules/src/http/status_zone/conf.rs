//! The directive `status_zone`.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};

/// Most values of one directive that have zones of their own: each costs about a kilobyte for each thread.
const KEYS_MAX: u64 = 100_000;

/// The directives of one block and of the blocks around it.
#[derive(Default)]
pub(crate) struct Conf {
    /// Of this block, until the block ends.
    pub(super) written: Option<ZoneText>,
    /// Of the server.
    pub(super) server: Option<ZoneText>,
    /// Of the location.
    pub(super) location: Option<ZoneText>,
}

/// A `status_zone` as written.
#[derive(Clone)]
pub(super) enum ZoneText {
    Off,
    Named(String),
    Keyed { key: Word, name: String, most: usize },
}

const ALL: Contexts =
    Contexts::SERVER_LOCATION.union(Contexts::LOCATION_IF).union(Contexts::STREAM_SERVER);

pub(super) const ROWS: &[Directive<Conf>] = &[row(
    "status_zone",
    ALL,
    Arity::between(1, 2),
    "",
    "Counts requests in the zone of this name, those of the server or those that end in the location: in progress, by \
     status, bytes, times. Servers that name the same zone share it. A location has the zone of the location around it; \
     `off` ends that. `status_zone $variable zone=NAME[:COUNT]` counts each value in a zone with the value as its name, \
     for at most COUNT values (1 without it) and without empty ones; all further values count in the zone NAME. \
     Directives that name the same zone share it, with the largest of their COUNTs.",
    |conf, args| {
        let text = parse(args)?;
        once(&mut conf.written, text, args)
    },
)];

fn parse(args: &Args<'_>) -> Result<ZoneText, Diagnostic> {
    let word = args.word(0);
    if args.len() == 1 {
        return match args.text(0)? {
            "" => Err(args.error(0, "invalid zone name \"\"")),
            "off" => Ok(ZoneText::Off),
            text if text.contains('$') => {
                let help = "a variable needs the name of a zone for further values: \
                            `status_zone $variable zone=NAME:COUNT`";
                Err(args.error(0, "no \"zone=\" parameter in \"status_zone\"").help(help))
            }
            name => Ok(ZoneText::Named(name.to_owned())),
        };
    }
    let zone = args.text(1)?.strip_prefix("zone=").ok_or_else(|| args.invalid_parameter(1))?;
    let (name, most) = match zone.split_once(':') {
        None => (zone, Some(1)),
        Some((name, count)) => (name, count.parse().ok()),
    };
    let most = most.filter(|most| (1..=KEYS_MAX).contains(most));
    let Some(most) = most.and_then(|most| usize::try_from(most).ok()) else {
        let help = format!("COUNT is a number from 1 to {KEYS_MAX}");
        return Err(args.error(1, format!("invalid number of zones \"{zone}\"")).help(help));
    };
    if name.is_empty() {
        return Err(args.error(1, format!("invalid zone name \"{zone}\"")));
    }
    Ok(ZoneText::Keyed { key: word.clone(), name: name.to_owned(), most })
}
