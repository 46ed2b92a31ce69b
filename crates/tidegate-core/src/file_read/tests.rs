//! Reading parts of files, and checks of the page cache.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use super::*;
use crate::body::Resident;
use crate::tests::wait;

fn file(content: &[u8]) -> Arc<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    Arc::new(file)
}

#[test]
fn a_part_is_read_up_to_the_end_of_the_file() {
    let range = FileRange::new(file(b"0123456789"), 0, 10);
    for (offset, want, expected) in
        [(0, 10, "0123456789"), (3, 4, "3456"), (8, 5, "89"), (10, 5, ""), (99, 1, ""), (0, 0, "")]
    {
        let bytes = wait(read(&range, offset, want)).unwrap();
        assert_eq!(bytes, expected.as_bytes(), "{offset} {want}");
    }
}

#[test]
fn a_fresh_file_is_in_the_page_cache() {
    let content = vec![b'x'; 1 << 20];
    let kept = file(&content);
    let range = FileRange::new(kept.clone(), 0, 1 << 20);
    for (offset, want) in [(0, 0), (0, 1), (5, 4096), (0, 1 << 20), ((1 << 20) - 1, 1)] {
        assert_eq!(wait(warm(&range, offset, want)).unwrap(), want, "{offset} {want}");
    }
    // A check of a whole small file counts for a moment, a check of a part does not.
    let resident = |bytes: &[u8]| {
        let resident = Some(Arc::new(Resident::new(bytes.to_vec().into())));
        FileRange { resident, ..FileRange::new(kept.clone(), 0, bytes.len() as u64) }
    };
    let (whole, part) = (resident(&content[..100]), resident(&content[..100]));
    assert!(!was_cached(&range) && !was_cached(&whole));
    wait(warm(&part, 0, 50)).unwrap();
    wait(warm(&whole, 0, 100)).unwrap();
    assert!(!was_cached(&part));
    let seen = whole.resident.as_ref().unwrap().seen_cached.load(Ordering::Relaxed);
    assert!(seen > 0);
}
