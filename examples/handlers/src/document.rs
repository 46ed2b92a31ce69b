//! A page of 10 kB, made for each request.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Request, Response, Result};

/// Length of the page in bytes.
pub(crate) const PAGE_BYTES: usize = 10_240;
/// The text of each row beside its numbers.
const TEXT: &str = "What a page says is mostly the same for everybody, and some of it is new each time: \
                    a name, a price, how many are left. This row stands for one that a template makes: \
                    it has its numbers, and around them the words that a writer has written once. Where \
                    the words come from does not matter here; that they are put together anew for each \
                    visit does.";

static VISITS: AtomicU64 = AtomicU64::new(0);

/// Responds with the page.
pub(crate) fn respond(request: Request) -> Result {
    let visit = VISITS.fetch_add(1, Ordering::Relaxed) + 1;
    let mut page = Vec::with_capacity(PAGE_BYTES + 128);
    write!(page, "<!DOCTYPE html><title>Visit {visit}</title>")?;
    writeln!(page, "<p>You come from {}.</p><ul>", request.client_address())?;
    let mut row = 0;
    while page.len() < PAGE_BYTES - 500 {
        row += 1;
        writeln!(page, "<li>Row {row} of visit {visit}: {}. {TEXT}</li>", row * visit)?;
    }
    page.resize(PAGE_BYTES - "</ul>\n".len(), b' ');
    page.extend_from_slice(b"</ul>\n");
    Ok(Response::html(page))
}
