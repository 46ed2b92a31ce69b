//! The issuers of a configuration, each with the certificates that its servers want.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_acme::{KeyKind, Wanted};
use tidegate_conf::{Diagnostic, Span, closest};
use tidegate_core::figures::OrderedCertificate;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_upstream::care::BackgroundTasks;

use super::Acme;
use super::certificates::ServerCertificate;
use super::challenges::Challenges;
use super::issuance::Issuance;
use super::issuer::{self, IssuerPlan};
use super::names;
use super::rows::CertificateConf;
use super::run::IssuerTask;

/// What the servers of a plan need.
#[derive(Default)]
pub(super) struct Prepared {
    /// By the positions of the `server` blocks.
    pub(super) certificates: HashMap<Span, ServerCertificate>,
    /// None without an issuer.
    pub(super) challenges: Option<Arc<Challenges>>,
}

/// An issuer while its certificates are collected.
struct Collected {
    plan: IssuerPlan,
    issuance: Arc<Issuance>,
}

/// Compiles all issuers and certificates. Issuers with certificates get a task of the background thread.
///
/// # Errors
/// The first mistake of an issuer; those of certificates are collected.
pub(super) fn prepare(plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    let Some(http) = plan.http_block() else { return Ok(()) };
    let mut issuers = issuers(http, plan)?;
    let mut prepared = Prepared::default();
    if !issuers.is_empty() {
        prepared.challenges = Some(challenges(plan)?);
    }
    for server in http.blocks("server") {
        let conf = server.conf::<Acme>().and_then(|conf| conf.certificate.as_ref());
        let Some(conf) = conf else { continue };
        match certificate(conf, server, &mut issuers, plan) {
            Ok(own) => drop(prepared.certificates.insert(server.span, own)),
            Err(diagnostic) => plan.diagnostics.push(diagnostic),
        }
    }
    for (_, Collected { plan: own, issuance }) in issuers {
        if own.wanted.is_empty() {
            continue;
        }
        let own = Arc::new(own);
        for wanted in &own.wanted {
            let (certificates, stem) = (issuance.certificates(), wanted.stem().to_owned());
            plan.figures.add_ordered(OrderedCertificate {
                issuer: own.name.clone(),
                names: wanted.names().iter().map(ToString::to_string).collect(),
                now: Arc::new(move || certificates.state(&stem)),
            });
        }
        let (stored, wanted) = (issuance.clone(), own.clone());
        plan.openings.push(Box::new(move |_| {
            stored.load(&wanted);
            Ok(())
        }));
        let task = IssuerTask { issuance, plan: own };
        plan.shared::<BackgroundTasks>().add(Arc::new(task));
    }
    plan.share(prepared);
    Ok(())
}

fn challenges(plan: &PlanBuilder<'_>) -> Result<Arc<Challenges>, Diagnostic> {
    let make = || Ok::<_, Diagnostic>(Challenges::default());
    plan.environment.reload_state.get_or_make("acme", make)
}

fn issuers(
    http: &Outline,
    plan: &mut PlanBuilder<'_>,
) -> Result<BTreeMap<String, Collected>, Diagnostic> {
    let mut issuers = BTreeMap::new();
    let mut directories = HashSet::new();
    for block in http.blocks("acme_issuer") {
        let Some(word) = block.args.first() else { continue };
        let name = word.display().into_owned();
        let Some(conf) = block.conf::<Acme>() else { continue };
        let challenges = challenges(plan)?;
        let mut own = issuer::compile(&name, &conf.issuer, word.span, &challenges, plan)?;
        if let Some(directory) = own.directory.take() {
            let span = conf.issuer.state_path.as_ref().map_or(word.span, |word| word.span);
            own.directory =
                Some(directory_of_its_own(directory, &name, span, &mut directories, plan));
        }
        let make = || Ok::<_, Diagnostic>(Issuance::default());
        let issuance = plan.environment.reload_state.get_or_make(&name, make)?;
        if issuers.insert(name.clone(), Collected { plan: own, issuance }).is_some() {
            let message = format!("duplicate acme_issuer \"{name}\"");
            return Err(Diagnostic::emerg(message).at(word.span));
        }
    }
    Ok(issuers)
}

/// Declares the directory of an issuer: a privileged master makes it, for the worker's user alone, and locks it for this
/// server; the worker locks it for the process that orders. Another issuer's directory gets one of this issuer below it:
/// nginx's module allows it, and each has an account.
fn directory_of_its_own(
    directory: PathBuf,
    name: &str,
    span: Span,
    used: &mut HashSet<PathBuf>,
    plan: &mut PlanBuilder<'_>,
) -> PathBuf {
    let mut own = directory;
    if !used.insert(own.clone()) {
        let shown = own.display().to_string();
        let message = format!("the same path name \"{shown}\" used");
        let found = Diagnostic::warn(message).at(span).label("another issuer has this directory");
        plan.diagnostics.push(found.help(format!("the files are in \"{shown}/{name}\"")));
        own.push(name);
        used.insert(own.clone());
    }
    plan.environment.resources.directory(&own);
    plan.environment.resources.claim(&own);
    own
}

fn certificate(
    conf: &CertificateConf,
    server: &Outline,
    issuers: &mut BTreeMap<String, Collected>,
    plan: &PlanBuilder<'_>,
) -> Result<ServerCertificate, Diagnostic> {
    let name = conf.issuer.display();
    let Some(issuer) = issuers.get_mut(&*name) else {
        let message = format!("issuer \"{name}\" is missing");
        let found = Diagnostic::emerg(message).at(conf.issuer.span);
        return Err(match closest(&name, issuers.keys().map(String::as_str)) {
            Some(meant) => found.help(format!("did you mean `{meant}`?")),
            None => found.help(format!("write `acme_issuer {name} {{ … }}` in `http`")),
        });
    };
    let words = match conf.names.is_empty() {
        false => &conf.names[..],
        true => server.conf::<HttpCore>().map_or(&[][..], |core| &core.server_names),
    };
    let names = names::parse(words, &plan.main.machine.host_name, issuer.plan.config.challenge)?;
    let wanted = Wanted::new(&names, conf.key.unwrap_or(KeyKind::Ecdsa256)).ok_or_else(|| {
        Diagnostic::emerg("no identifiers in \"acme_certificate\"")
            .at(conf.span)
            .help("write names behind the issuer, or a `server_name`")
    })?;
    let own = ServerCertificate::new(issuer.issuance.certificates(), wanted.stem());
    if !issuer.plan.wanted.contains(&wanted) {
        issuer.plan.wanted.push(wanted);
    }
    Ok(own)
}
