//! An authority in memory: resources of RFC 8555 as far as the client uses them, nonces that are checked, and counters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData, SignatureAlgorithm,
};
use serde_json::{Value, json};
use x509_cert::der::Decode as _;
use x509_cert::request::CertReq;

use crate::csr::alternative_names;
use crate::encoding::from_base64url;
use crate::identifier::Identifier;
use crate::time::Time;
use crate::wire::{Method, Request, Response};

pub(super) const BASE: &str = "https://ca.test";

/// The simulated authority.
pub(super) struct Authority {
    /// Whether accounts have a list of orders, as those of Pebble do.
    pub has_list: bool,
    /// Whether newOrder returns a pending order for the same names, as Let's Encrypt does.
    pub reuses_orders: bool,
    /// How often a resource says `processing` before it goes on.
    pub slow: u32,
    /// How many nonces in a row are refused, each time.
    pub bad_nonces: u32,
    /// Whether validations fail.
    pub refuses_names: bool,
    pub profiles: Value,
    pub external_account_required: bool,
    pub terms_required: bool,
    /// The suggested window of renewals, if any.
    pub window: Option<(Time, Time)>,
    pub life: Duration,
    /// Texts of newOrder's payloads.
    pub new_orders: Vec<Value>,
    pub issued: usize,
    pub accounts: BTreeMap<String, Value>,
    orders: Vec<Order>,
    nonces: BTreeSet<String>,
    nonce_count: u32,
    refused_in_a_row: u32,
    roots: [CertifiedIssuer<'static, KeyPair>; 2],
}

struct Order {
    names: Vec<(String, String)>,
    profile: Value,
    status: &'static str,
    /// For each name, the status of its authorization.
    authorizations: Vec<&'static str>,
    looks: u32,
    chains: Vec<String>,
}

struct Public(Vec<u8>);

impl PublicKeyData for Public {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        // An uncompressed point: 1 + 2 × 32 bytes, or 1 + 2 × 48.
        if self.0.len() == 65 { &PKCS_ECDSA_P256_SHA256 } else { &PKCS_ECDSA_P384_SHA384 }
    }
}

fn root(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("a root")
}

impl Authority {
    pub(super) fn new() -> Authority {
        Authority {
            has_list: true,
            reuses_orders: false,
            slow: 0,
            bad_nonces: 0,
            refuses_names: false,
            profiles: json!({ "classic": "", "short": "" }),
            external_account_required: false,
            terms_required: false,
            window: None,
            life: Duration::from_secs(90 * 86_400),
            new_orders: Vec::new(),
            issued: 0,
            accounts: BTreeMap::new(),
            orders: Vec::new(),
            nonces: BTreeSet::new(),
            nonce_count: 0,
            refused_in_a_row: 0,
            roots: [root("Root A"), root("Root B")],
        }
    }

    pub(super) fn orders(&self) -> usize {
        self.orders.len()
    }

    /// Makes all orders invalid, or forgets the accounts.
    pub(super) fn invalidate(&mut self) {
        self.orders.iter_mut().for_each(|order| order.status = "invalid");
    }

    /// Responds. `presented` has the key authorizations of the client by token.
    pub(super) fn respond(
        &mut self,
        request: &Request,
        presented: &BTreeMap<String, String>,
        now: Time,
    ) -> Response {
        let (status, mut fields, body) = match request.method {
            Method::Get => self.get(&request.url),
            Method::Head => (200, Vec::new(), String::new()),
            Method::Post => self.post(request, presented, now),
        };
        if request.method != Method::Get {
            let nonce = format!("nonce-{}", self.nonce_count);
            self.nonce_count += 1;
            self.nonces.insert(nonce.clone());
            fields.push(("Replay-Nonce".to_owned(), nonce));
        }
        let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Response::new(status, fields, body.into_bytes())
    }

    fn get(&self, url: &str) -> Reply {
        if url == format!("{BASE}/dir") {
            let ari = self.window.map(|_| format!("{BASE}/ari"));
            return ok(json!({
                "newNonce": format!("{BASE}/nonce"), "newAccount": format!("{BASE}/new-account"),
                "newOrder": format!("{BASE}/new-order"), "renewalInfo": ari,
                "meta": { "profiles": self.profiles, "termsOfService": format!("{BASE}/terms"),
                          "externalAccountRequired": self.external_account_required }
            }));
        }
        match self.window {
            Some((start, end)) if url.starts_with(&format!("{BASE}/ari/")) => {
                let window = json!({ "start": start.to_string(), "end": end.to_string() });
                let (status, mut fields, body) = ok(json!({ "suggestedWindow": window }));
                fields.push(("Retry-After".to_owned(), "21600".to_owned()));
                (status, fields, body)
            }
            _ => problem(404, "malformed"),
        }
    }

    fn post(
        &mut self,
        request: &Request,
        presented: &BTreeMap<String, String>,
        now: Time,
    ) -> Reply {
        let body: Value = serde_json::from_slice(&request.body).expect("a JWS");
        let part = |name: &str| from_base64url(body[name].as_str().unwrap_or("!")).expect(name);
        let header: Value = serde_json::from_slice(&part("protected")).expect("a header");
        let payload = part("payload");
        let payload: Value = serde_json::from_slice(&payload).unwrap_or_default();
        assert_eq!(header["url"], request.url.as_str());
        let known = self.nonces.remove(header["nonce"].as_str().unwrap_or_default());
        if !known || self.refused_in_a_row < self.bad_nonces {
            self.refused_in_a_row += 1;
            return problem(400, "badNonce");
        }
        self.refused_in_a_row = 0;
        let path = request.url.strip_prefix(BASE).unwrap_or_default().to_owned();
        if path == "/new-account" {
            return self.new_account(&header["jwk"], &payload);
        }
        let account = header["kid"].as_str().unwrap_or_default();
        let Some(known) = self.accounts.get_mut(account) else {
            return problem(400, "accountDoesNotExist");
        };
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let number = |at: usize| parts.get(at).and_then(|text| text.parse().ok()).unwrap_or(9999);
        match parts[..] {
            ["account", _] => {
                known["contact"] = payload["contact"].clone();
                ok(known.clone())
            }
            ["orders", ..] => self.list(number(1)),
            ["new-order"] => self.new_order(&payload),
            ["order", _] => self.order(number(1)),
            ["order", _, "finalize"] => self.finalize(number(1), &payload, now),
            ["authorization", ..] => self.authorization(number(1), number(2)),
            ["challenge", ..] => {
                let (order, name) = (number(1), number(2));
                let token = token(order, name);
                let proof = presented.get(&token);
                let good = proof.is_some_and(|proof| proof.starts_with(&format!("{token}.")));
                let order = &mut self.orders[order];
                order.authorizations[name] =
                    if good && !self.refuses_names { "valid" } else { "invalid" };
                if order.authorizations[name] == "invalid" {
                    order.status = "invalid";
                } else if order.authorizations.iter().all(|status| *status == "valid") {
                    order.status = "ready";
                }
                ok(json!({}))
            }
            ["certificate", _, chain] => {
                let order = &self.orders[number(1)];
                let alternate = format!("<{BASE}/certificate/{}/1>;rel=\"alternate\"", parts[1]);
                let text = order.chains[chain.parse::<usize>().expect("a chain")].clone();
                (200, vec![("Link".to_owned(), alternate)], text)
            }
            _ => problem(404, "malformed"),
        }
    }

    fn new_account(&mut self, key: &Value, payload: &Value) -> Reply {
        if self.terms_required && payload["termsOfServiceAgreed"] != true {
            return problem(403, "userActionRequired");
        }
        let found = self.accounts.iter().find(|(_, account)| account["key"] == *key);
        let url = match found {
            Some((url, _)) => url.clone(),
            None => format!("{BASE}/account/{}", self.accounts.len()),
        };
        let orders = self.has_list.then(|| format!("{BASE}/orders/0"));
        let account = self.accounts.entry(url.clone()).or_insert_with(|| {
            json!({ "key": key, "status": "valid", "orders": orders,
                    "contact": payload["contact"], "binding": payload["externalAccountBinding"] })
        });
        (201, vec![("Location".to_owned(), url)], account.to_string())
    }

    /// One page for each order, so that pages are followed.
    fn list(&self, page: usize) -> Reply {
        let orders: Vec<String> = (page..self.orders.len().min(page + 1))
            .map(|number| format!("{BASE}/order/{number}"))
            .collect();
        let (status, mut fields, body) = ok(json!({ "orders": orders }));
        if page + 1 < self.orders.len() {
            let next = format!("<{BASE}/orders/{}>;rel=\"next\"", page + 1);
            fields.push(("Link".to_owned(), next));
        }
        (status, fields, body)
    }

    fn new_order(&mut self, payload: &Value) -> Reply {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names: Vec<_> = payload["identifiers"]
            .as_array()
            .expect("identifiers")
            .iter()
            .map(|name| (text(&name["type"]), text(&name["value"])))
            .collect();
        self.new_orders.push(payload.clone());
        let is_open = |order: &Order| {
            self.reuses_orders
                && order.names == names
                && matches!(order.status, "pending" | "ready")
        };
        let number = match self.orders.iter().position(is_open) {
            Some(number) => number,
            None => {
                self.orders.push(Order {
                    authorizations: vec!["pending"; names.len()],
                    names,
                    profile: payload["profile"].clone(),
                    status: "pending",
                    looks: 0,
                    chains: Vec::new(),
                });
                self.orders.len() - 1
            }
        };
        let (_, mut fields, body) = self.order(number);
        fields.push(("Location".to_owned(), format!("{BASE}/order/{number}")));
        (201, fields, body)
    }

    fn order(&mut self, number: usize) -> Reply {
        let slow = self.slow;
        let Some(order) = self.orders.get_mut(number) else { return problem(404, "malformed") };
        if order.status == "processing" {
            order.looks += 1;
            order.status = if order.looks > slow { "valid" } else { "processing" };
        }
        let names: Vec<Value> = order
            .names
            .iter()
            .map(|(kind, value)| json!({ "type": kind, "value": value }))
            .collect();
        let authorizations: Vec<String> = (0..order.names.len())
            .map(|name| format!("{BASE}/authorization/{number}/{name}"))
            .collect();
        let certificate =
            (order.status == "valid").then(|| format!("{BASE}/certificate/{number}/0"));
        ok(json!({
            "status": order.status, "identifiers": names, "authorizations": authorizations,
            "finalize": format!("{BASE}/order/{number}/finalize"), "certificate": certificate,
            "profile": order.profile, "expires": "2100-01-01T00:00:00Z",
        }))
    }

    fn authorization(&mut self, number: usize, name: usize) -> Reply {
        let slow = self.slow;
        let order = &mut self.orders[number];
        let (kind, value) = &order.names[name];
        let mut status = order.authorizations[name];
        if status == "valid" && order.looks < slow {
            order.looks += 1;
            status = "processing";
        }
        let error = json!({ "type": "urn:ietf:params:acme:error:connection", "detail": "refused" });
        let error = if status == "invalid" { error } else { Value::Null };
        let challenge = |kind: &str| {
            json!({ "type": kind, "status": status, "token": token(number, name),
                    "url": format!("{BASE}/challenge/{number}/{name}"), "error": error })
        };
        // An authorization has no status `processing`.
        let shown = if status == "processing" { "pending" } else { status };
        ok(json!({
            "status": shown, "identifier": { "type": kind, "value": value },
            "challenges": [challenge("dns-01"), challenge("http-01"), challenge("tls-alpn-01")],
        }))
    }

    fn finalize(&mut self, number: usize, payload: &Value, now: Time) -> Reply {
        if self.orders[number].status != "ready" {
            return problem(403, "orderNotReady");
        }
        let der = from_base64url(payload["csr"].as_str().unwrap_or_default()).expect("a request");
        let request = CertReq::from_der(&der).expect("a request");
        let public = request.info.public_key.subject_public_key.raw_bytes().to_vec();
        let names: Vec<Identifier> = self.orders[number]
            .names
            .iter()
            .map(|(_, name)| Identifier::parse(name).expect("a name"))
            .collect();
        self.issued += 1;
        for issuer in &self.roots {
            let mut parameters = CertificateParams::default();
            parameters.subject_alt_names = alternative_names(&names).expect("names");
            parameters.use_authority_key_identifier_extension = true;
            parameters.not_before = (std::time::UNIX_EPOCH + Duration::from_secs(now.0)).into();
            parameters.not_after = parameters.not_before + self.life;
            let leaf = parameters.signed_by(&Public(public.clone()), issuer).expect("signed");
            self.orders[number].chains.push(leaf.pem() + &issuer.pem());
        }
        self.orders[number].status = "processing";
        self.orders[number].looks = 0;
        self.order(number)
    }
}

type Reply = (u16, Vec<(String, String)>, String);

fn token(order: usize, name: usize) -> String {
    format!("token-{order}-{name}")
}

fn ok(body: Value) -> Reply {
    (200, Vec::new(), body.to_string())
}

pub(super) fn problem(status: u16, kind: &str) -> Reply {
    let kind = format!("urn:ietf:params:acme:error:{kind}");
    (status, Vec::new(), json!({ "type": kind, "detail": "as the test wants" }).to_string())
}
