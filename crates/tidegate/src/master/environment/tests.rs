//! Tests of the `env` directive.

use super::*;

#[test]
fn only_named_variables_are_kept() {
    let names = ["PATH", "A=1", "B=x=y", "A=2", "SURELY_NOT_SET_ANYWHERE"].map(str::to_owned);
    let mut found = of_worker(&names);
    assert!(found.contains(&(instance::VARIABLE.into(), instance::name().into())));
    found.retain(|(name, _)| name != KEPT && name != instance::VARIABLE);
    let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
    let mut expected: Vec<(OsString, OsString)> = path.into_iter().collect();
    expected.push(("B".into(), "x=y".into()));
    expected.push(("A".into(), "2".into()));
    assert_eq!(found, expected);
}

#[test]
fn a_new_binary_is_of_the_family() {
    let names = inherited().into_iter().filter(|(name, _)| name == instance::VARIABLE);
    assert_eq!(
        names.map(|(_, value)| value).collect::<Vec<_>>(),
        [OsString::from(instance::name())]
    );
}
