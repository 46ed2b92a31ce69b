//! The comparison finds a default that is not the written one, and a value that no plan shows.

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::testing::ModuleList;
use tidegate_plan::{Entry, ErasedModule, LocationBuilder, Module};

use super::{Comparison, surroundings};

/// A module whose directives have the written default 5.
struct Numbers;

#[derive(Default)]
struct Conf {
    values: [Option<u64>; 3],
}

impl Module for Numbers {
    type Conf = Conf;
    const NAME: &'static str = "numbers";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] =
        &[&[number("right", set::<0>), number("wrong", set::<1>), number("hidden", set::<2>)]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let [right, wrong, _hidden] = conf.values;
        location.plan.show(&(right.unwrap_or(5), wrong.unwrap_or(6)));
        Ok(())
    }
}

const fn number(
    name: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    row(name, Contexts::LOCATION, Arity::ONE, "5", "A number.", set)
}

fn set<const INDEX: usize>(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    once(&mut conf.values[INDEX], args.number(0, 0..=9)?, args)
}

struct List;

impl ModuleList for List {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW, &Entry::<Numbers>::NEW]
    }
}

#[test]
fn a_wrong_default_and_a_hidden_value_are_found() {
    let mut comparison = Comparison::<List>::default();
    let found = Entry::<Numbers>::NEW.rows().into_iter().map(|row| {
        let places = surroundings::places(Numbers::NAME, &row);
        (row.name, comparison.mistake(&row, &places[0]))
    });
    let wrong = "without Some(\"    6,\"), with the default Some(\"    5,\")";
    let expected = [
        ("right", None),
        ("wrong", Some(wrong.to_owned())),
        ("hidden", Some("no plan shows its value".to_owned())),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
