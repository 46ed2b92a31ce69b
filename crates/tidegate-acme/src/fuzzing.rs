//! An entry point for fuzzers; a plain function, so that ordinary tests replay a corpus through it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::{
    AccountKeySource, ChallengeKind, Config, Identifier, Issuer, Key, KeyKind, Outcome, Request,
    Response, Step, Time, Wanted,
};

const BASE: &str = "https://ca.test/";
const START: Time = Time(1_800_000_000);
/// Steps of a run: more than a whole order has.
const STEPS_MAX: usize = 400;
/// Bytes of a report's text.
const REPORT_BYTES_MAX: usize = 2_000;

static KEY: LazyLock<Option<Key>> = LazyLock::new(|| Key::generate(KeyKind::Ecdsa256).ok());

/// Runs an issuer against a server whose responses the data decides: well-formed ones of the resource that was asked
/// for, the same with a byte changed, errors, and any bytes. Whatever it responds: each request goes to the server, files
/// have plain names, texts for the log are short and printable, waits end in the future, and the files can be read again
/// by another machine at each moment.
pub fn fuzz_responses(data: &[u8]) {
    let mut data = Input(data);
    let Some(key) = KEY.clone() else { return };
    let mut files = BTreeMap::new();
    let mut now = START;
    let kind = if data.byte() & 1 == 0 { ChallengeKind::Http01 } else { ChallengeKind::TlsAlpn01 };
    let Some(mut issuer) = machine(kind, &files, now) else { return };
    for _ in 0..STEPS_MAX {
        if data.0.is_empty() {
            break;
        }
        let outcome = match issuer.poll(now) {
            Step::Store(change) => {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                assert!(change.file.bytes().all(is_plain), "{:?}", change.file);
                match change.contents {
                    Some(contents) => files.insert(change.file, contents),
                    None => files.remove(&change.file),
                };
                Outcome::Done
            }
            Step::Send(request) => {
                assert!(request.url.starts_with("https://"), "{:?}", request.url);
                data.respond(&request)
            }
            Step::MakeKey(_) => Outcome::Key(key.clone()),
            Step::Present(_) | Step::Withdraw(_) => Outcome::Done,
            Step::Report(report) => {
                let text = report.event.to_string();
                assert!(text.len() <= REPORT_BYTES_MAX, "{} bytes", text.len());
                assert!(!text.contains(char::is_control), "{text:?}");
                continue;
            }
            Step::Wait(until) => {
                assert!(until > now, "a wait that is over");
                now = until;
                // What a process knows that was killed here.
                if data.byte() & 3 == 0 {
                    match machine(kind, &files, now) {
                        Some(another) => issuer = another,
                        None => panic!("files that cannot be read again"),
                    }
                }
                continue;
            }
        };
        issuer.done(outcome, now, u64::from(data.byte()));
    }
}

fn machine(
    challenge: ChallengeKind,
    files: &BTreeMap<String, Vec<u8>>,
    now: Time,
) -> Option<Issuer> {
    let config = Config {
        directory: format!("{BASE}directory"),
        account_key: AccountKeySource::Generate(KeyKind::Ecdsa256),
        contacts: vec!["mailto:admin@example.com".to_owned()],
        external_account: None,
        terms_agreed: true,
        challenge,
        preferred_chain: None,
        profile: None,
        common_name: false,
    };
    let names = [Identifier::parse("a.test").ok()?, Identifier::parse("b.test").ok()?];
    let wanted = Wanted::new(&names, KeyKind::Ecdsa256)?;
    let mut read = |file: &str| files.get(file).cloned();
    Issuer::new(config, vec![wanted], &mut read, now, 0).ok()
}

struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> &'d [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn respond(&mut self, request: &Request) -> Outcome {
        let (kind, variant) = (self.byte(), self.byte());
        let (location, mut body) = resource(&request.url, variant);
        let mut status = 200;
        match kind {
            0..160 => {}
            160..200 => {
                let (at, byte) = (usize::from(self.byte()) * 4, self.byte());
                if let Some(changed) = body.get_mut(at) {
                    *changed = byte;
                }
            }
            200..230 => body = self.bytes().to_vec(),
            230..250 => {
                status = 400 + u16::from(variant);
                let kind = PROBLEMS[usize::from(self.byte()) % PROBLEMS.len()];
                let text = String::from_utf8_lossy(self.bytes()).into_owned();
                let kind = format!("urn:ietf:params:acme:error:{kind}");
                body = serde_json::json!({ "type": kind, "detail": text }).to_string().into_bytes();
            }
            250.. => return Outcome::Failed("no network".to_owned()),
        }
        let nonce = format!("nonce{kind}");
        let other = String::from_utf8_lossy(if kind & 7 == 7 { self.bytes() } else { &[] });
        let fields = [
            ("replay-nonce", nonce.as_str()),
            ("location", if other.is_empty() { &location } else { &other }),
            ("retry-after", &other),
            ("link", &other),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        Outcome::Response(Response::new(status, fields, body))
    }
}

const PROBLEMS: [&str; 6] =
    ["badNonce", "rateLimited", "accountDoesNotExist", "orderNotReady", "malformed", "compound"];

/// Returns the location and the body of a resource as an honest server has them; `variant` is its state.
fn resource(url: &str, variant: u8) -> (String, Vec<u8>) {
    use serde_json::json;
    let at = |path: &str| format!("{BASE}{path}");
    let path = url.strip_prefix(BASE).unwrap_or_default();
    let pick = |states: &[&'static str]| states[usize::from(variant) % states.len()];
    let names = json!([{"type": "dns", "value": "a.test"}, {"type": "dns", "value": "b.test"}]);
    let (location, body) = match path.split('/').next().unwrap_or_default() {
        "directory" => (
            "",
            json!({
                "newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("new"),
                "revokeCert": at("revoke"), "keyChange": at("change"), "renewalInfo": at("renewal"),
            }),
        ),
        "account" | "accounts" => {
            ("accounts/1", json!({ "status": "valid", "orders": at("orders") }))
        }
        "orders" => ("", json!({ "orders": [at("order/1"), at("order/2")] })),
        "new" | "order" | "finalize" => {
            let status = pick(&["pending", "ready", "processing", "valid", "invalid"]);
            let order = json!({
                "status": status, "identifiers": names, "finalize": at("finalize/1"),
                "authorizations": [at("authorization/1"), at("authorization/2")],
                "certificate": at("certificate/1"), "expires": "2027-02-01T00:00:00Z",
            });
            ("order/1", order)
        }
        "authorization" => {
            let status = pick(&["pending", "valid", "invalid", "expired", "deactivated"]);
            let name = if path.ends_with('1') { "a.test" } else { "b.test" };
            let challenge = |kind: &str| json!({"type": kind, "url": at("challenge/1"), "token": "0123456789abcdefghijk_", "status": status});
            let authorization = json!({
                "status": status, "identifier": {"type": "dns", "value": name},
                "challenges": [challenge("http-01"), challenge("tls-alpn-01"), challenge("dns-01")],
            });
            ("", authorization)
        }
        "challenge" => {
            ("", json!({"type": "http-01", "url": at("challenge/1"), "status": "processing"}))
        }
        _ => ("", json!({})),
    };
    let location = if location.is_empty() { String::new() } else { at(location) };
    (location, body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The templates lead through a whole order, up to a certificate that is none.
    #[test]
    fn an_honest_server_is_asked_for_a_certificate() {
        let (mut files, mut now, mut asked) = (BTreeMap::new(), START, Vec::new());
        let mut issuer = machine(ChallengeKind::Http01, &files, now).expect("a machine");
        let key = Key::generate(KeyKind::Ecdsa256).expect("a key");
        while asked.len() < 40 && !asked.iter().any(|url: &String| url.contains("certificate")) {
            let outcome = match issuer.poll(now) {
                Step::Store(change) => {
                    files.insert(change.file, change.contents.unwrap_or_default());
                    Outcome::Done
                }
                Step::Send(request) => {
                    let is_looked_at = asked.contains(&request.url);
                    let state = match request.url.contains("order") {
                        true => [1, 3][usize::from(is_looked_at)],
                        false => u8::from(is_looked_at),
                    };
                    asked.push(request.url.clone());
                    Input(&[0, state]).respond(&request)
                }
                Step::MakeKey(_) => Outcome::Key(key.clone()),
                Step::Present(_) | Step::Withdraw(_) => Outcome::Done,
                Step::Report(_) => continue,
                Step::Wait(until) => {
                    now = until;
                    continue;
                }
            };
            issuer.done(outcome, now, 1);
        }
        assert!(asked.iter().any(|url| url.contains("certificate")), "{asked:?}");
    }
}
