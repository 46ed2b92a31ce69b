//! What all orders of an issuer share: the directory, nonces, and the account.

use std::mem;
use std::time::Duration;

use serde_json::{Value, json};

use crate::certificate::success;
use crate::config::{AccountKeySource, Config};
use crate::failure::{Consequence, Failure};
use crate::files::{Change, Registered};
use crate::json::{Malformed, url_fault};
use crate::jws::{AccountKey, Signing};
use crate::key::{KeyError, KeyKind};
use crate::limits::{DIRECTORY_AGE_MAX, NONCES_MAX};
use crate::message::{Account as AccountMessage, Directory, new_account};
use crate::step::{Event, Outcome, Step};
use crate::time::Time;
use crate::wire::{Method, Request, Response};

/// Directory, nonces and account.
#[derive(Debug)]
pub(crate) struct Session {
    directory: Option<(Directory, Time)>,
    nonces: Vec<String>,
    account: Account,
}

/// The account, on its way to be used.
#[derive(Debug)]
enum Account {
    NoKey(KeyKind),
    /// The key was made, and is to be stored: a lost key would be a lost account.
    Made(AccountKey),
    Unregistered(AccountKey),
    /// The URL is to be stored.
    Unrecorded(AccountKey, Registered),
    /// The account can be used. The contacts are those that the server has, or has refused.
    Ready(AccountKey, Registered),
}

/// A step of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Directory,
    MakeKey,
    StoreKey,
    Nonce,
    Register,
    Record,
    Contacts,
}

/// How far the session must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Directory,
    Account,
    Nonce,
}

impl Session {
    /// Makes the session that the files describe: the account's key, and the account. An account of another directory or
    /// key is not used.
    pub(crate) fn new(
        config: &Config,
        key: Option<AccountKey>,
        registered: Option<Registered>,
    ) -> Session {
        let account = match (key, &config.account_key) {
            (Some(key), _) => {
                let own = |account: &Registered| {
                    account.directory == config.directory && account.key == key.thumbprint()
                };
                match registered.filter(own) {
                    Some(account) => Account::Ready(key, account),
                    None => Account::Unregistered(key),
                }
            }
            (None, AccountKeySource::Generate(kind)) => Account::NoKey(*kind),
            (None, AccountKeySource::Given(key)) => Account::NoKey(key.kind()),
        };
        Session { directory: None, nonces: Vec::new(), account }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref().map(|(directory, _)| directory)
    }

    pub(crate) fn key(&self) -> Option<&AccountKey> {
        match &self.account {
            Account::NoKey(_) => None,
            Account::Made(key)
            | Account::Unregistered(key)
            | Account::Unrecorded(key, _)
            | Account::Ready(key, _) => Some(key),
        }
    }

    /// Returns the URL of the account's list of orders.
    pub(crate) fn orders_url(&self) -> Option<&str> {
        match &self.account {
            Account::Ready(_, account) => account.orders.as_deref(),
            _ => None,
        }
    }

    /// Returns the step that must precede a step with this need; none if there is no such step.
    pub(crate) fn next(
        &mut self,
        need: Need,
        config: &Config,
        now: Time,
    ) -> Result<Option<(Task, Step)>, Failure> {
        let fresh = |read: Time| now.since(read) < DIRECTORY_AGE_MAX;
        let Some((directory, _)) = self.directory.as_ref().filter(|(_, read)| fresh(*read)) else {
            let request = Request::plain(Method::Get, &config.directory);
            return Ok(Some((Task::Directory, Step::Send(request))));
        };
        let new_account_url = directory.new_account.clone();
        if need == Need::Directory {
            return Ok(None);
        }
        let task = match &self.account {
            Account::NoKey(kind) => return Ok(Some((Task::MakeKey, Step::MakeKey(*kind)))),
            Account::Made(key) => {
                let change = Change::account_key(key.key());
                return Ok(Some((Task::StoreKey, Step::Store(change))));
            }
            Account::Unregistered(_) => Task::Register,
            Account::Unrecorded(_, account) => {
                return Ok(Some((Task::Record, Step::Store(account.change()))));
            }
            Account::Ready(_, account) if account.contacts != config.contacts => Task::Contacts,
            Account::Ready(..) if need == Need::Account => return Ok(None),
            Account::Ready(..) => Task::Nonce,
        };
        if self.nonces.is_empty() {
            let request = Request::plain(Method::Head, &directory.new_nonce);
            return Ok(Some((Task::Nonce, Step::Send(request))));
        }
        let request = match task {
            Task::Register => self.register(config, &new_account_url)?,
            Task::Contacts => {
                let payload = json!({ "contact": config.contacts });
                self.signed(None, Some(&payload), None)?
            }
            _ => return Ok(None),
        };
        Ok(Some((task, Step::Send(request))))
    }

    fn register(&mut self, config: &Config, url: &str) -> Result<Request, Failure> {
        let (Some(key), Some((directory, _))) = (self.key(), &self.directory) else {
            return Err(KeyError::Unreadable.into());
        };
        if directory.external_account_required && config.external_account.is_none() {
            return Err(Failure::ExternalAccountRequired);
        }
        let external = config.external_account.as_ref().map(|external| (key, external, url));
        let payload = new_account(&config.contacts, config.terms_agreed, external)?;
        self.sign(&Signing::Key, url, Some(&payload), None)
    }

    /// Makes a request of the account; without a URL, one about the account itself. It takes a nonce.
    pub(crate) fn signed(
        &mut self,
        url: Option<&str>,
        payload: Option<&Value>,
        accept: Option<&'static str>,
    ) -> Result<Request, Failure> {
        let Account::Ready(_, account) = &self.account else {
            return Err(Failure::AccountInvalid);
        };
        let account = account.url.clone();
        let url = url.unwrap_or(&account);
        self.sign(&Signing::Account(&account), url, payload, accept)
    }

    fn sign(
        &mut self,
        signing: &Signing<'_>,
        url: &str,
        payload: Option<&Value>,
        accept: Option<&'static str>,
    ) -> Result<Request, Failure> {
        let nonce = self.nonces.pop().unwrap_or_default();
        let key = self.key().ok_or(KeyError::Unreadable)?;
        let body = key.sign(signing, &nonce, url, payload)?;
        Ok(Request::signed(url, body, accept))
    }

    /// Keeps the nonce of a response.
    pub(crate) fn keep_nonce(&mut self, response: &Response) {
        if let Some(nonce) = response.nonce() {
            if self.nonces.len() >= NONCES_MAX {
                self.nonces.remove(0);
            }
            self.nonces.push(nonce.to_owned());
        }
    }

    /// The server has refused a nonce: the others are likely to be as old.
    pub(crate) fn drop_nonces(&mut self) {
        self.nonces.clear();
    }

    /// A step has failed, of an order or of the session. The server may have changed its directory: that is read again.
    pub(crate) fn after_failure(&mut self, failure: &Failure) {
        if !failure.is_of_the_caller() {
            self.directory = None;
        }
        if failure.consequence() == Consequence::Reregister {
            self.unregister();
        }
    }

    /// The clock was set back by this time.
    pub(crate) fn set_back(&mut self, back: Duration) {
        if let Some((_, read)) = &mut self.directory {
            *read = read.before(back);
        }
    }

    /// The server does not have the account.
    fn unregister(&mut self) {
        self.account = match mem::replace(&mut self.account, Account::NoKey(KeyKind::Ecdsa256)) {
            Account::Ready(key, _) | Account::Unrecorded(key, _) => Account::Unregistered(key),
            account => account,
        };
    }

    /// Takes the result of a step of the session. One that does not fit the step changes nothing.
    pub(crate) fn done(
        &mut self,
        task: Task,
        outcome: Outcome,
        config: &Config,
        now: Time,
    ) -> Result<Option<Event>, Failure> {
        if let Outcome::Failed(reason) = outcome {
            return Err(Failure::Caller(reason));
        }
        match (task, outcome) {
            (Task::Directory, Outcome::Response(response)) => {
                success(&response, now)?;
                self.directory = Some((Directory::parse(&response.body)?, now));
            }
            (Task::MakeKey, Outcome::Key(key)) => {
                self.account = Account::Made(AccountKey::new(key)?);
            }
            (Task::Nonce, Outcome::Response(response)) => {
                success(&response, now)?;
                if response.nonce().is_none() {
                    return Err(Malformed::new("nonce", "Replay-Nonce", "it is missing").into());
                }
            }
            (Task::Register, Outcome::Response(response)) => {
                return self.registered(&response, config, now).map(Some);
            }
            (Task::Contacts, Outcome::Response(response)) => {
                return self.contacts_changed(&response, config, now);
            }
            (Task::StoreKey | Task::Record, Outcome::Done) => {
                let account = mem::replace(&mut self.account, Account::NoKey(KeyKind::Ecdsa256));
                self.account = match account {
                    Account::Made(key) => Account::Unregistered(key),
                    Account::Unrecorded(key, account) => Account::Ready(key, account),
                    account => account,
                };
            }
            _ => {}
        }
        Ok(None)
    }

    fn registered(
        &mut self,
        response: &Response,
        config: &Config,
        now: Time,
    ) -> Result<Event, Failure> {
        if let Err(failure) = success(response, now) {
            let terms = self.directory().and_then(|directory| directory.terms.clone());
            return Err(match (terms.filter(|_| !config.terms_agreed), failure) {
                (Some(terms), Failure::Problem { problem, status, retry_after })
                    if !matches!(status, 408 | 429 | 500..) && retry_after.is_none() =>
                {
                    Failure::Terms(terms, problem)
                }
                (_, failure) => failure,
            });
        }
        let found = AccountMessage::parse(&response.body)?;
        if !found.is_valid {
            return Err(Failure::AccountInvalid);
        }
        let url = response.location().filter(|url| url_fault(url).is_none());
        let missing = || Malformed::new("account", "Location", "it is missing, or not a URL");
        let url = url.ok_or_else(missing)?.to_owned();
        let event = Event::Registered(url.clone());
        self.account = match mem::replace(&mut self.account, Account::NoKey(KeyKind::Ecdsa256)) {
            Account::Unregistered(key) => {
                let registered = Registered {
                    directory: config.directory.clone(),
                    key: key.thumbprint().to_owned(),
                    url,
                    orders: found.orders,
                    contacts: config.contacts.clone(),
                };
                Account::Unrecorded(key, registered)
            }
            account => account,
        };
        Ok(event)
    }

    /// Takes the response to a change of contacts. If it is refused, orders go on with the old ones.
    fn contacts_changed(
        &mut self,
        response: &Response,
        config: &Config,
        now: Time,
    ) -> Result<Option<Event>, Failure> {
        let result = success(response, now);
        if let Err(failure) = result {
            if failure.consequence() != Consequence::Reorder {
                return Err(failure);
            }
            if let Account::Ready(_, account) = &mut self.account {
                account.contacts = config.contacts.clone();
            }
            return Ok(Some(Event::ContactsRefused(failure)));
        }
        self.account = match mem::replace(&mut self.account, Account::NoKey(KeyKind::Ecdsa256)) {
            Account::Ready(key, mut account) => {
                account.contacts = config.contacts.clone();
                Account::Unrecorded(key, account)
            }
            account => account,
        };
        Ok(None)
    }
}
