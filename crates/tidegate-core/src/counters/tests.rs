//! Counters rise and fall with connections and requests, and are summed over threads.

use super::*;

/// Returns the changes of the figures. They are the process's, and no other test changes them.
fn since(before: ConnectionFigures) -> [i64; 6] {
    let now = figures();
    let change =
        |figure: fn(&ConnectionFigures) -> u64| figure(&now) as i64 - figure(&before) as i64;
    [
        change(|f| f.accepted),
        change(|f| f.requests),
        change(|f| f.active),
        change(|f| f.reading),
        change(|f| f.writing),
        change(|f| f.waiting),
    ]
}

#[test]
fn figures_are_sums_over_threads() {
    let before = figures();
    let own = Counters::register();
    let first = own.open();
    let second = own.open();
    own.request();
    {
        let _reading = own.reading();
        assert_eq!(since(before), [2, 1, 2, 1, 0, 1]);
        let _writing = own.writing();
        assert_eq!(since(before), [2, 1, 2, 1, 1, 0]);
    }
    let other = std::thread::spawn(|| {
        let counters = Counters::register();
        counters.request();
        drop(counters.open());
    });
    other.join().unwrap();
    // The totals of an ended thread are kept.
    assert_eq!((since(before), own.active()), ([3, 2, 2, 0, 0, 2], 2));
    drop((first, second));
    assert_eq!((since(before), own.active(), active()), ([3, 2, 0, 0, 0, 0], 0, before.active));
    assert_eq!(figures().handled, figures().accepted);
}
