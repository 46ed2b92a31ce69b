//! `set_md5`, `set_escape_uri`, `set_random` and others: assignments by functions, in the syntax of the module set-misc.
//! They are statements of the rewrite phases, in one order with `set` and `if`.
//!
//! ```nginx
//! set_unescape_uri   $key $arg_key;
//! set_if_empty       $key default;
//! set_md5            $hash "$key$uri";
//! set_hmac_sha256    $signature secret "$hash";
//! set_encode_base64  $signature;               # in place
//! ```

mod convert;
mod run;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, Word, once, row};
use tidegate_core::Template;
use tidegate_plan::{PlanBuilder, made_variable};

use super::rewrite::assignment::Target;
use super::rewrite::conf::{Conf, Statement};

pub(crate) use run::Failed;

/// The settings of one block.
#[derive(Clone, Default)]
pub(crate) struct MiscSettings {
    base32_padding: Option<bool>,
    base32_alphabet: Option<[u8; 32]>,
    lists: Vec<UpstreamList>,
}

/// `upstream_list`.
#[derive(Clone, Debug)]
struct UpstreamList {
    name: Vec<u8>,
    upstreams: Vec<Vec<u8>>,
}

impl MiscSettings {
    pub(crate) fn inherit(&mut self, parent: &MiscSettings) {
        self.base32_padding = self.base32_padding.or(parent.base32_padding);
        self.base32_alphabet = self.base32_alphabet.or(parent.base32_alphabet);
        if self.lists.is_empty() {
            self.lists.clone_from(&parent.lists);
        }
    }
}

/// A function of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    IfEmpty,
    QuoteSql,
    QuotePgsql,
    QuoteJson,
    UnescapeUri,
    EscapeUri,
    HashedUpstream,
    EncodeBase32,
    DecodeBase32,
    EncodeBase64,
    DecodeBase64,
    EncodeBase64Url,
    DecodeBase64Url,
    EncodeHex,
    DecodeHex,
    Sha1,
    Md5,
    HmacSha1,
    HmacSha256,
    Random,
    RandomAlphanum,
    RandomLcalpha,
    Rotate,
    LocalToday,
    GmtTime,
    LocalTime,
}

/// A statement as written.
#[derive(Clone)]
pub(crate) struct MiscConf {
    function: Function,
    name: String,
    span: Span,
    /// The words behind the variable; none: the variable itself.
    args: Vec<Word>,
}

/// A compiled statement.
#[derive(Debug)]
pub(crate) struct MiscOp {
    target: Target,
    /// The value of the variable so far, where that counts.
    own: Option<Template>,
    function: Compiled,
    args: Box<[Template]>,
}

/// A function with its settings.
#[derive(Debug)]
enum Compiled {
    /// A function of its arguments alone.
    Plain(Function),
    Base32 {
        base32: convert::Base32,
        decodes: bool,
    },
    Upstreams(Box<[UpstreamList]>),
    /// The last value, [`NO_VALUE`] before the first.
    Rotate(AtomicU64),
}

/// In place of a number that was never set.
const NO_VALUE: u64 = u64::MAX;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION_IF.union(Contexts::SERVER_IF);

/// Makes the row of a function.
macro_rules! function {
    ($name:literal, $arity:expr, $function:ident, $doc:literal) => {
        row($name, Contexts::REWRITE, $arity, "", $doc, |conf: &mut Conf, args| {
            conf.statements.push(Statement::Misc(read(args, Function::$function)?));
            Ok(())
        })
    };
}

/// The rows of the module, which belong to the settings of the rewrite directives.
pub(crate) const ROWS: &[Directive<Conf>] = &[
    function!(
        "set_if_empty",
        Arity::TWO,
        IfEmpty,
        "Sets a variable to a value if it is empty or has none."
    ),
    function!(
        "set_quote_sql_str",
        Arity::ONE_OR_TWO,
        QuoteSql,
        "Sets a variable to a value (in place: its own) as a string of MySQL, quoted and escaped."
    ),
    function!(
        "set_quote_pgsql_str",
        Arity::ONE_OR_TWO,
        QuotePgsql,
        "Sets a variable to a value (in place: its own) as a string of PostgreSQL, quoted and escaped."
    ),
    function!(
        "set_quote_json_str",
        Arity::ONE_OR_TWO,
        QuoteJson,
        "Sets a variable to a value (in place: its own) as a string of JSON; `null` for an empty one."
    ),
    function!(
        "set_unescape_uri",
        Arity::ONE_OR_TWO,
        UnescapeUri,
        "Sets a variable to a value (in place: its own) with `%XX` decoded and `+` as a blank."
    ),
    function!(
        "set_escape_uri",
        Arity::ONE_OR_TWO,
        EscapeUri,
        "Sets a variable to a value (in place: its own), percent-encoded as a component of a URI."
    ),
    function!(
        "set_hashed_upstream",
        Arity::THREE,
        HashedUpstream,
        "Sets a variable to a name of an `upstream_list`, chosen by a hash of the last argument."
    ),
    row(
        "upstream_list",
        Contexts::HTTP,
        Arity::AT_LEAST_TWO,
        "",
        "Names a list of upstream groups for `set_hashed_upstream`.",
        |conf: &mut Conf, args| {
            let mut words = args.words().iter().map(|word| word.bytes.clone());
            let name = words.next().unwrap_or_default();
            conf.misc.lists.push(UpstreamList { name, upstreams: words.collect() });
            Ok(())
        },
    ),
    function!(
        "set_encode_base32",
        Arity::ONE_OR_TWO,
        EncodeBase32,
        "Sets a variable to a value (in place: its own) in Base32, see `set_base32_alphabet`."
    ),
    function!(
        "set_decode_base32",
        Arity::ONE_OR_TWO,
        DecodeBase32,
        "Sets a variable to a decoded value (in place: its own) in Base32; 500 for an invalid one."
    ),
    row(
        "set_base32_padding",
        ALL,
        Arity::FLAG,
        "on",
        "Whether `set_encode_base32` fills up the last group with `=`.",
        |conf: &mut Conf, args| once(&mut conf.misc.base32_padding, args.flag(0)?, args),
    ),
    row(
        "set_misc_base32_padding",
        ALL,
        Arity::FLAG,
        "on",
        "The former name of `set_base32_padding`.",
        |conf: &mut Conf, args| once(&mut conf.misc.base32_padding, args.flag(0)?, args),
    ),
    row(
        "set_base32_alphabet",
        ALL,
        Arity::ONE,
        "0123456789abcdefghijklmnopqrstuv",
        "The 32 digits of Base32.",
        |conf: &mut Conf, args| once(&mut conf.misc.base32_alphabet, alphabet(args)?, args),
    ),
    function!(
        "set_encode_base64",
        Arity::ONE_OR_TWO,
        EncodeBase64,
        "Sets a variable to a value (in place: its own) in Base64."
    ),
    function!(
        "set_decode_base64",
        Arity::ONE_OR_TWO,
        DecodeBase64,
        "Sets a variable to a decoded value (in place: its own) in Base64; 500 for an invalid one."
    ),
    function!(
        "set_encode_base64url",
        Arity::ONE_OR_TWO,
        EncodeBase64Url,
        "Sets a variable to a value (in place: its own) in the Base64 of URLs, without padding."
    ),
    function!(
        "set_decode_base64url",
        Arity::ONE_OR_TWO,
        DecodeBase64Url,
        "Sets a variable to a decoded value (in place: its own) in the Base64 of URLs; 500 for an invalid one."
    ),
    function!(
        "set_encode_hex",
        Arity::ONE_OR_TWO,
        EncodeHex,
        "Sets a variable to a value (in place: its own) in hexadecimal digits."
    ),
    function!(
        "set_decode_hex",
        Arity::ONE_OR_TWO,
        DecodeHex,
        "Sets a variable to a decoded value (in place: its own) of hexadecimal digits; 500 for an invalid one."
    ),
    function!(
        "set_sha1",
        Arity::ONE_OR_TWO,
        Sha1,
        "Sets a variable to the SHA-1 sum of a value (in place: its own), in hexadecimal digits."
    ),
    function!(
        "set_md5",
        Arity::ONE_OR_TWO,
        Md5,
        "Sets a variable to the MD5 sum of a value (in place: its own), in hexadecimal digits."
    ),
    function!(
        "set_hmac_sha1",
        Arity::THREE,
        HmacSha1,
        "Sets a variable to the 20 bytes of the HMAC-SHA1 of a key and a value."
    ),
    function!(
        "set_hmac_sha256",
        Arity::THREE,
        HmacSha256,
        "Sets a variable to the 32 bytes of the HMAC-SHA256 of a key and a value."
    ),
    function!(
        "set_random",
        Arity::THREE,
        Random,
        "Sets a variable to a random number between two numbers, both included; 500 for something else."
    ),
    function!(
        "set_secure_random_alphanum",
        Arity::TWO,
        RandomAlphanum,
        "Sets a variable to so many unpredictable letters and digits, 1 to 64; 500 for another number."
    ),
    function!(
        "set_secure_random_lcalpha",
        Arity::TWO,
        RandomLcalpha,
        "Sets a variable to so many unpredictable lower-case letters, 1 to 64; 500 for another number."
    ),
    function!(
        "set_rotate",
        Arity::THREE,
        Rotate,
        "Increments a variable between two numbers; where it has no number, the last value of this statement."
    ),
    function!(
        "set_local_today",
        Arity::ONE,
        LocalToday,
        "Sets a variable to the local date, `YYYY-MM-DD`."
    ),
    function!(
        "set_formatted_gmt_time",
        Arity::TWO,
        GmtTime,
        "Sets a variable to the present time in GMT, in a format of `strftime`."
    ),
    function!(
        "set_formatted_local_time",
        Arity::TWO,
        LocalTime,
        "Sets a variable to the present local time, in a format of `strftime`."
    ),
];

fn read(args: &Args<'_>, function: Function) -> Result<MiscConf, Diagnostic> {
    let name = made_variable::name(args, 0)?;
    let words = args.words()[1..].to_vec();
    if matches!(function, Function::RandomAlphanum | Function::RandomLcalpha) {
        let is_literal = !args.bytes(1).contains(&b'$');
        if is_literal && run::random_length(args.bytes(1)).is_none() {
            return Err(args.invalid_value(1).help("a number from 1 to 64"));
        }
    }
    Ok(MiscConf { function, name, span: args.word(0).span, args: words })
}

fn alphabet(args: &Args<'_>) -> Result<[u8; 32], Diagnostic> {
    let text = args.bytes(0);
    let alphabet = <[u8; 32]>::try_from(text).map_err(|_| {
        let message = format!(
            "\"{}\" directive takes an alphabet of {} bytes but 32 expected",
            args.name(),
            text.len()
        );
        args.error(0, message)
    })?;
    let repeated = (1..32).find(|at| alphabet[..*at].contains(&alphabet[*at]));
    match repeated {
        Some(at) => {
            let digit = char::from(alphabet[at]);
            Err(args.error(0, format!("\"{digit}\" is twice in the alphabet")))
        }
        None => Ok(alphabet),
    }
}

impl MiscConf {
    pub(crate) fn compile(
        &self,
        settings: &MiscSettings,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<MiscOp, Diagnostic> {
        let target = Target::compile(&self.name, self.span, plan)?;
        let own = format!("${{{}}}", self.name);
        let uses_own = self.args.is_empty() && self.function != Function::LocalToday;
        let mut args = plan.templates(&self.args)?;
        if uses_own {
            args.push(plan.template_text(own.as_bytes(), self.span)?);
        }
        let keeps_own = matches!(self.function, Function::IfEmpty | Function::Rotate);
        let own = match keeps_own {
            true => Some(plan.template_text(own.as_bytes(), self.span)?),
            false => None,
        };
        let function = match self.function {
            Function::HashedUpstream => Compiled::Upstreams(self.lists(settings, &args)?),
            Function::Rotate => Compiled::Rotate(AtomicU64::new(NO_VALUE)),
            Function::EncodeBase32 | Function::DecodeBase32 => Compiled::Base32 {
                base32: convert::Base32 {
                    alphabet: settings.base32_alphabet.unwrap_or(*convert::BASE32_HEX),
                    pads: settings.base32_padding.unwrap_or(true),
                },
                decodes: self.function == Function::DecodeBase32,
            },
            plain => Compiled::Plain(plain),
        };
        Ok(MiscOp { target, own, function, args: args.into() })
    }

    /// Returns the lists that the statement may use.
    fn lists(
        &self,
        settings: &MiscSettings,
        args: &[Template],
    ) -> Result<Box<[UpstreamList]>, Diagnostic> {
        let Some(name) = args.first().and_then(Template::literal) else {
            return Ok(settings.lists.clone().into());
        };
        let Some(list) = settings.lists.iter().find(|list| list.name == name) else {
            let name = String::from_utf8_lossy(name);
            let message = format!("upstream list \"{name}\" not defined");
            let span = self.args.first().map_or(self.span, |word| word.span);
            return Err(Diagnostic::emerg(message).at(span));
        };
        Ok(Box::new([list.clone()]))
    }
}
