//! The thread pool of a location's requests.

use tidegate_core::blocking::{HANDLERS, PoolSettings, apply};
use tidegate_core::exchange::Exchange;
use tidegate_core::pool_choice::PoolChoice;
use tidegate_core::template::Template;

use crate::tests::Bench;

#[test]
fn a_pool_is_found_by_the_locations_name_for_it() {
    apply(&[PoolSettings { name: "a".to_owned(), threads: 1, max_queue: 5 }]).unwrap();
    let bench = Bench::new("server { location / { do own respond a; } }");
    let mut x = bench.get("/?pool=a").x;
    let pick = |x: &mut Exchange, template: &str| {
        let mut variables = tidegate_core::variables::VariableTable::new([].into_iter());
        let span = tidegate_conf::Span::NONE;
        let template = Template::compile(template.as_bytes(), span, &mut variables).unwrap();
        let choice = match template.literal() {
            Some(name) => PoolChoice::named(String::from_utf8_lossy(name).into_owned()),
            None => PoolChoice::computed(template),
        };
        // The second lookup returns the first one's pool.
        let picked = [choice.pick(x), choice.pick(x)];
        picked.map(|pool| pool.map(|pool| pool.name().to_owned()))[1].clone()
    };
    assert_eq!(pick(&mut x, "a").as_deref(), Some("a"));
    assert_eq!(pick(&mut x, "absent"), None);
    assert_eq!(pick(&mut x, "$1"), None);
    let log = bench.read("logs/error.log");
    assert!(
        log.contains("thread pool \"absent\" not found")
            && log.contains("thread pool \"\" not found")
    );
    assert_eq!(
        PoolChoice::handlers().pick(&mut x).map(|pool| pool.name().to_owned()).as_deref(),
        Some(HANDLERS)
    );
}
