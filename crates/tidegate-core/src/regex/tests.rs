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

#[test]
fn an_expression_of_very_many_is_compiled_when_it_is_needed() {
    let slot = |name: &str| if name == "n" { Ok(3) } else { Err(RegexError(name.to_owned())) };
    let late = Regex::with_slots("NAME(?<n>[0-9]+)(x)?", true, false, slot).expect("valid");
    assert!(late.compiled.get().is_none());
    assert_eq!((late.group_count(), &late.named[..]), (2, &[(1, 3)][..]));
    let mut captures = Captures::default();
    assert_eq!(late.capture_into(&mut captures, b"a name17"), Ok(true));
    assert_eq!(captures.group(1), Some(&b"17"[..]));
    assert!(late.compiled.get().is_some());
    assert_eq!(late.names().collect::<Vec<_>>(), [(1, "n")]);
    // What is needed for each subject is compiled at once.
    for (text, jit) in [("[0-9]+", false), ("name", true)] {
        let early = Regex::with_slots(text, false, jit, slot).expect("valid");
        assert!(early.compiled.get().is_some(), "{text}");
    }
    assert!(Regex::with_slots("name(", false, false, slot).is_err());
}
