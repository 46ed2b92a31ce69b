//! Pools by name: kept over reloads while they stay the same, and found by what a location says.

use super::*;
use crate::exchange::Exchange;
use crate::pool_choice::PoolChoice;
use crate::template::Template;
use crate::tests::{Bench, wait};

fn settings(name: &str, threads: usize) -> PoolSettings {
    PoolSettings { name: name.to_owned(), threads, max_queue: 5 }
}

/// One test for all: the pools are the process's.
#[test]
fn pools_outlast_a_reload_while_their_directive_stays() {
    apply(&[settings("a", 1), settings("b", 1)]).unwrap();
    let (a, b) = (pool("a").unwrap(), pool("b").unwrap());
    assert!(pool("absent").is_none());
    let handlers = pool(HANDLERS).unwrap();
    assert!(Arc::ptr_eq(&handlers, &pool(HANDLERS).unwrap()));
    apply(&[settings("a", 1), settings("b", 2), settings("c", 1)]).unwrap();
    assert!(Arc::ptr_eq(&a, &pool("a").unwrap()) && !Arc::ptr_eq(&b, &pool("b").unwrap()));
    // The one of handlers needs no directive.
    assert!(Arc::ptr_eq(&handlers, &pool(HANDLERS).unwrap()));
    // What the old one was given is done there.
    assert_eq!(wait(run_on(Some(&b), || Ok(7))).unwrap(), 7);
    let names: Vec<String> = figures().into_iter().map(|(name, _)| name).collect();
    assert!(["a", "b", "c", HANDLERS].iter().all(|name| names.iter().any(|known| known == name)));

    let bench = Bench::new("server { location / { do own respond a; } }");
    let mut x = bench.get("/?pool=a").x;
    let pick = |x: &mut Exchange, template: &str| {
        let mut variables = crate::variables::VariableTable::new([].into_iter());
        let span = tidegate_conf::Span::NONE;
        let template = Template::compile(template.as_bytes(), span, &mut variables).unwrap();
        let choice = match template.literal() {
            Some(name) => PoolChoice::named(String::from_utf8_lossy(name).into_owned()),
            None => PoolChoice::computed(template),
        };
        // The second look is the first one's.
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
    apply(&[]).unwrap();
    assert!(pool("a").is_none());
}

#[test]
fn work_ends_with_its_result_its_error_or_its_panic() {
    assert_eq!(wait(run(|| Ok(7))).unwrap(), 7);
    let failed = wait(run(|| Err::<(), _>(io::ErrorKind::NotFound.into())));
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
    let panicked = wait(run(|| -> io::Result<()> { panic!("at the disk") }));
    assert!(panicked.unwrap_err().to_string().contains("at the disk"));
    assert_eq!(wait(run_on(None, || Ok(()))).unwrap_err().to_string(), "no thread pool");
    let (sender, receiver) = std::sync::mpsc::channel();
    detach(move || sender.send(7).unwrap());
    assert_eq!(receiver.recv(), Ok(7));
}
