//! Pools by name: kept over reloads while their directive is unchanged.

use super::*;
use crate::tests::wait;

fn settings(name: &str, threads: usize) -> PoolSettings {
    PoolSettings { name: name.to_owned(), threads, max_queue: 5 }
}

/// One test for all steps: the pools are the process's.
#[test]
fn pools_outlive_a_reload_while_their_directive_is_unchanged() {
    apply(&[settings("a", 1), settings("b", 1)]).unwrap();
    let (a, b) = (pool("a").unwrap(), pool("b").unwrap());
    assert!(pool("absent").is_none());
    let handlers = pool(HANDLERS).unwrap();
    assert!(Arc::ptr_eq(&handlers, &pool(HANDLERS).unwrap()));
    apply(&[settings("a", 1), settings("b", 2), settings("c", 1)]).unwrap();
    assert!(Arc::ptr_eq(&a, &pool("a").unwrap()) && !Arc::ptr_eq(&b, &pool("b").unwrap()));
    // The pool of handlers needs no directive.
    assert!(Arc::ptr_eq(&handlers, &pool(HANDLERS).unwrap()));
    // Accepted jobs run on the old pool.
    assert_eq!(wait(run_on(Some(&b), || Ok(7))).unwrap(), 7);
    let names: Vec<String> = figures().into_iter().map(|(name, _)| name).collect();
    assert!(["a", "b", "c", HANDLERS].iter().all(|name| names.iter().any(|known| known == name)));
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
