//! Successive matches with one match buffer.

use super::*;

#[test]
fn a_match_sees_nothing_of_the_previous_one() {
    let regex = Regex::compile_late("^(a+)(x)?|(b+)$").unwrap_or_else(|error| panic!("{error}"));
    let groups = |subject: &[u8]| {
        let mut captures = Captures::default();
        let matched = regex.capture_into(&mut captures, subject);
        (matched.unwrap_or_else(|_| panic!("the limit")), captures.ranges)
    };
    for _ in 0..3 {
        assert_eq!(groups(b"aax"), (true, vec![Some((0, 3)), Some((0, 2)), Some((2, 3)), None]));
        assert_eq!(groups(b"none"), (false, vec![]));
        assert_eq!(groups(b"cbb"), (true, vec![Some((1, 3)), None, None, Some((1, 3))]));
        assert_eq!(groups(b"a"), (true, vec![Some((0, 1)), Some((0, 1)), None, None]));
    }
    let kept = regex.free.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert_eq!(kept, 1, "one room was enough");
}
