//! The page.

use std::fmt::Write;

/// Length of the page in bytes.
pub const PAGE_BYTES: usize = 10_240;

/// Makes a page of [`PAGE_BYTES`] bytes.
pub fn page(visit: u64, host: &str) -> Vec<u8> {
    let mut page = String::with_capacity(PAGE_BYTES + 128);
    // Writing to a string does not fail.
    let _ = write!(page, "<!DOCTYPE html><title>Visit {visit}</title>");
    let shown: String = host.chars().filter(|letter| !"<>&".contains(*letter)).take(64).collect();
    let _ = writeln!(page, "<p>You asked {shown}.</p><ul>");
    let mut row = 0_u64;
    while page.len() < PAGE_BYTES - 140 {
        row += 1;
        let _ = writeln!(page, "<li>Row {row} of visit {visit}: {}</li>", row.wrapping_mul(visit));
    }
    let mut page = page.into_bytes();
    page.resize(PAGE_BYTES - "</ul>\n".len(), b' ');
    page.extend_from_slice(b"</ul>\n");
    page
}
