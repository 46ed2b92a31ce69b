//! `auth_basic`: user names and passwords by HTTP Basic authentication (RFC 7617).
//!
//! ```nginx
//! location /closed/ {
//!     auth_basic           "closed site";
//!     auth_basic_user_file htpasswd;
//! }
//! ```
//! The file has lines `name:hash` and may change at any time: it is read for each request, on a pool thread. Hashes
//! that are slow on purpose are computed by a pool of their own, so that neither the event loop nor file access
//! waits for them.

mod hash;
mod md5_crypt;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidegate_codec::Known;
use tidegate_codec::headers::one_line;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::timeline::{Cause, blame};
use tidegate_core::{Exchange, Level, Phase, Step, Template, blocking, credentials};
use tidegate_os::os_error;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_rt::blocking::ThreadPool;

use hash::Cost;

/// Slow password checks that may wait for a thread; further ones are refused with 500.
const QUEUE_MAX: usize = 4096;
/// Bytes of the largest user file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// `ngx_http_auth_basic_module`.
pub(crate) struct AuthBasic;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    realm: Option<Word>,
    user_file: Option<Word>,
}

impl Module for AuthBasic {
    type Conf = Conf;
    const NAME: &'static str = "auth_basic";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.realm.is_none() {
            child.realm.clone_from(&parent.realm);
        }
        if child.user_file.is_none() {
            child.user_file.clone_from(&parent.user_file);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        // Without a user file there is no authentication, as in nginx.
        let (Some(realm), Some(file)) = (&conf.realm, &conf.user_file) else { return Ok(()) };
        let plan = &mut *location.plan;
        let check = Arc::new(PasswordCheck {
            realm: plan.template(realm)?,
            user_file: plan.template(file)?,
            directory: plan.environment.conf_directory.to_owned(),
        });
        if check.realm.literal() != Some(b"off") {
            location.handler(Phase::Access, Box::new(move |x| check.apply(x)));
        }
        Ok(())
    }
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION.union(Contexts::LIMIT_EXCEPT);

const ROWS: &[Directive<Conf>] = &[
    row(
        "auth_basic",
        CONTEXTS,
        Arity::ONE,
        "off",
        "Requires a user name and a password; the realm that browsers show, or `off`.",
        |conf, args| once(&mut conf.realm, args.word(0).clone(), args),
    ),
    row(
        "auth_basic_user_file",
        CONTEXTS,
        Arity::ONE,
        "",
        "File with lines `name:hash[:comment]`. Hashes are those of crypt() (DES, MD5, bcrypt, SHA, \
         yescrypt), Apache's `$apr1$`, or `{PLAIN}`, `{SHA}` and `{SSHA}` passwords.",
        |conf, args| once(&mut conf.user_file, args.word(0).clone(), args),
    ),
];

/// The settings of a location.
struct PasswordCheck {
    realm: Template,
    user_file: Template,
    /// Directory that relative names of user files refer to.
    directory: PathBuf,
}

/// The result of checking a request's user name and password.
enum CheckResult {
    Right,
    Wrong,
    Unknown,
}

impl PasswordCheck {
    fn apply<'a>(self: &Arc<PasswordCheck>, x: &'a mut Exchange) -> Step<'a> {
        let realm = self.realm.value(x);
        if realm == b"off" {
            return Step::Decline;
        }
        let field = x.request.header(Known::Authorization);
        let Some((user, password)) = field.and_then(credentials::basic) else {
            let message = "no user/password was provided for basic authentication";
            x.log(Level::Info, format_args!("{message}"));
            return challenge(x, &realm);
        };
        let file = self.user_file.value(x);
        let file = self.directory.join(String::from_utf8_lossy(&file).as_ref());
        Step::Wait(Box::pin(decide(x, realm, file, user, password)))
    }
}

/// Checks the request's credentials. A missing file is 403, an unreadable one 500, as in nginx. Dropped at its
/// await, a file read or a hash that waits in a pool is not begun; the result of a running one is discarded.
/// Sources: `auth_basic_user_file`, RFC 7617 section 2.
async fn decide(
    x: &mut Exchange,
    realm: Vec<u8>,
    file: PathBuf,
    user: Vec<u8>,
    password: Vec<u8>,
) -> Step<'static> {
    let checking = check_password(file.clone(), user.clone(), password);
    let result = blame(Cause::Auth, checking).await;
    let (user, file) = (String::from_utf8_lossy(&user), file.display());
    match result {
        Ok(CheckResult::Right) => return Step::Next,
        Ok(CheckResult::Wrong) => {
            x.log(Level::Error, format_args!("user \"{user}\": password mismatch"));
        }
        Ok(CheckResult::Unknown) => {
            x.log(Level::Error, format_args!("user \"{user}\" was not found in \"{file}\""));
        }
        Err(error) => {
            let is_absent = error.kind() == io::ErrorKind::NotFound;
            let level = if is_absent { Level::Error } else { Level::Crit };
            let error = os_error(&error);
            x.log(level, format_args!("open() \"{file}\" failed ({error})"));
            return Step::Status(if is_absent { 403 } else { 500 });
        }
    }
    challenge(x, &realm)
}

/// Returns 401 with the `WWW-Authenticate` field, which makes browsers ask for a password.
fn challenge(x: &mut Exchange, realm: &[u8]) -> Step<'static> {
    let value = one_line([b"Basic realm=\"", realm, b"\""].concat());
    x.response.headers.set_known(Known::WwwAuthenticate, &value);
    Step::Status(401)
}

/// Looks the user up and checks the password. The file is read for each request, on a pool thread, so that changes
/// apply at once. Slow hashes have a pool of their own, so that passwords do not delay file access.
async fn check_password(
    file: PathBuf,
    user: Vec<u8>,
    password: Vec<u8>,
) -> io::Result<CheckResult> {
    let found = blocking::run(move || Ok(find_user(&read(&file)?, &user))).await?;
    let Some(hash) = found else { return Ok(CheckResult::Unknown) };
    let right = match hash::cost(&hash) {
        Cost::Little => hash::is_right(&hash, &password),
        Cost::Much => {
            blocking::run_on(pool(), move || Ok(hash::is_right(&hash, &password))).await?
        }
    };
    Ok(if right { CheckResult::Right } else { CheckResult::Wrong })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the hash of a user: the text between the name and the end of the line or a comment.
fn find_user(file: &[u8], user: &[u8]) -> Option<Vec<u8>> {
    let mut lines = file.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let rest = lines.find_map(|line| line.strip_prefix(user)?.strip_prefix(b":"))?;
    let end = rest.iter().position(|byte| matches!(byte, b':' | b'\r'));
    Some(rest[..end.unwrap_or(rest.len())].to_vec())
}

/// Returns the pool for slow hashes. It has threads for half of the processors, so that the event loops keep the
/// others.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let make = || {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        ThreadPool::new("passwords", processors.div_ceil(2), QUEUE_MAX).ok()
    };
    POOL.get_or_init(make).as_ref()
}
