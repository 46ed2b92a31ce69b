//! The certificate, and the search for the preferred chain among its alternates (RFC 8555 section 7.4.2).

use super::work::{Call, Keep, Work, success};
use super::{Context, Want};
use crate::chain::Chain;
use crate::failure::Failure;
use crate::files::Placed;
use crate::json::url_fault;
use crate::limits::ALTERNATES_MAX;
use crate::wire::Response;

/// Chains are read: the server's default first, then the alternates until one is the preferred chain.
#[derive(Debug)]
pub(super) struct Download {
    placed: Placed,
    /// What is read, the last one first.
    urls: Vec<String>,
    /// The default chain.
    default: Option<Chain>,
}

impl Download {
    pub(super) fn new(placed: Placed, url: String) -> Download {
        Download { placed, urls: vec![url], default: None }
    }

    pub(super) fn placed(&self) -> &Placed {
        &self.placed
    }

    pub(super) fn want(&self) -> Want {
        match self.urls.last() {
            Some(url) => Call::certificate(url),
            None => Call::read(&self.placed.url),
        }
    }

    pub(super) fn received(
        mut self,
        response: &Response,
        context: &Context<'_>,
    ) -> Result<Work, Failure> {
        self.urls.pop();
        let chain = self.chain(response, context);
        let preferred = context.config.preferred_chain.as_deref();
        let is_preferred = |chain: &Chain| preferred.is_none_or(|name| chain.is_issued_by(name));
        let default = match (self.default.take(), chain) {
            (None, chain) => {
                let chain = chain?;
                if !is_preferred(&chain) {
                    self.urls = alternates(response);
                }
                chain
            }
            (Some(_), Ok(chain)) if is_preferred(&chain) => {
                self.urls.clear();
                chain
            }
            // An alternate that cannot be used is no reason to have no certificate.
            (Some(default), _) => default,
        };
        if self.urls.is_empty() {
            let keep = Keep { placed: self.placed, chain: default };
            return Ok(Work::Keep(Box::new(keep)));
        }
        self.default = Some(default);
        Ok(Work::Download(self))
    }

    fn chain(&self, response: &Response, context: &Context<'_>) -> Result<Chain, Failure> {
        success(response, context.now)?;
        let chain = Chain::parse(&response.body)?;
        chain.check(&self.placed.intent.key, &self.placed.intent.names, context.now)?;
        Ok(chain)
    }
}

/// Returns the URLs of other chains, the first one last.
fn alternates(response: &Response) -> Vec<String> {
    let links = response.links("alternate").filter(|url| url_fault(url).is_none());
    let mut urls: Vec<String> = links.take(ALTERNATES_MAX).map(str::to_owned).collect();
    urls.reverse();
    urls
}
