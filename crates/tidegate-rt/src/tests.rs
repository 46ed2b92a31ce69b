//! Tests over real sockets, threads and timers.

mod net;
mod work;

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::timer::{Deadline, Elapsed};
use crate::{block_on, clock, date, random, spawn_local, timer};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_run_of_a_task_has_one_time_and_the_next_a_later_one() {
    block_on(async {
        let task = spawn_local(async {
            let mut runs = Vec::new();
            for _ in 0..3 {
                let before = clock::now();
                pass(2 * SHORT);
                runs.push((before, clock::now()));
                timer::sleep(SHORT).await;
            }
            runs
        });
        let runs = task.await.unwrap();
        assert!(runs.iter().all(|(before, after)| before == after), "{runs:?}");
        assert!(runs.is_sorted_by(|earlier, later| earlier.1 < later.0), "{runs:?}");
    })
    .unwrap();
    let before = clock::now();
    pass(4 * SHORT);
    assert!(clock::now() > before);
}

/// Works for `time`, without a chance for other tasks of the event loop.
fn pass(time: Duration) {
    let end = clock::exact_now() + time;
    while clock::exact_now() < end {
        std::hint::spin_loop();
    }
}

#[test]
fn moments_end_with_receipts_and_with_their_batch() {
    let moment = crate::batch_epoch::current;
    assert_eq!(moment(), None);
    let mut seen = Vec::new();
    for _ in 0..2 {
        clock::batch(|| {
            seen.push(moment());
            assert_eq!(moment(), seen[seen.len() - 1]);
            crate::batch_epoch::advance();
            seen.push(moment());
        });
        assert_eq!(moment(), None);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(Option::is_some));
}

#[test]
fn dates_in_all_forms() {
    #[track_caller]
    fn check(seconds: i64, offset: i32, http: &str, local: &str, iso8601: &str) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&date::http_date(seconds)), http);
        assert_eq!(text(&date::time_local(seconds, offset)), local);
        assert_eq!(text(&date::time_iso8601(seconds, offset)), iso8601);
    }
    check(
        784_111_777,
        0,
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "06/Nov/1994:08:49:37 +0000",
        "1994-11-06T08:49:37+00:00",
    );
    check(
        0,
        21_600,
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "01/Jan/1970:06:00:00 +0600",
        "1970-01-01T06:00:00+06:00",
    );
    check(
        951_782_399,
        -12_600,
        "Mon, 28 Feb 2000 23:59:59 GMT",
        "28/Feb/2000:20:29:59 -0330",
        "2000-02-28T20:29:59-03:30",
    );
    check(
        951_782_400,
        0,
        "Tue, 29 Feb 2000 00:00:00 GMT",
        "29/Feb/2000:00:00:00 +0000",
        "2000-02-29T00:00:00+00:00",
    );
    check(
        i64::MAX,
        0,
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "31/Dec/9999:23:59:59 +0000",
        "9999-12-31T23:59:59+00:00",
    );
    check(
        -1,
        0,
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "31/Dec/1969:23:59:59 +0000",
        "1969-12-31T23:59:59+00:00",
    );
    assert_eq!(&date::time_error_log(784_111_777, 3600), b"1994/11/06 09:49:37");
}

proptest! {
    /// The next day's date follows by the rules of the calendar.
    #[test]
    fn dates_advance_by_days(day in -700_000_i64..2_900_000) {
        let number = |bytes: &[u8]| -> u32 {
            bytes.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
        };
        let read = |day: i64| {
            let text = date::time_iso8601(day * 86_400, 0);
            (number(&text[..4]), number(&text[5..7]), number(&text[8..10]))
        };
        let (year, month, date) = read(day);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => if leap { 29 } else { 28 },
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let expected = match (month, date) {
            (12, 31) => (year + 1, 1, 1),
            (_, last) if last == length => (year, month + 1, 1),
            _ => (year, month, date + 1),
        };
        prop_assert_eq!(read(day + 1), expected);
    }

    #[test]
    fn dates_never_panic(seconds: i64, offset: i32) {
        date::http_date(seconds);
        date::time_local(seconds, offset);
        date::time_iso8601(seconds, offset);
        date::time_error_log(seconds, offset);
    }

    #[test]
    fn bounded_random_numbers_are_below(limit: u64) {
        prop_assert!(random::below(limit) < limit.max(1));
    }
}

#[test]
fn the_cheap_clock_is_never_ahead() {
    for _ in 0..10_000 {
        let cheap = clock::now();
        assert!(cheap <= Instant::now());
    }
    assert!(clock::unix_millis() / 1000 > 1_600_000_000);
    assert!(clock::unix_seconds() > 1_600_000_000);
}

#[test]
fn time_texts_are_lent_even_nested() {
    clock::http_date(|outer| {
        clock::http_date(|inner| assert_eq!(outer.len(), inner.len()));
        assert!(outer.ends_with(b" GMT"));
    });
    let local = clock::log_time_local(|text| String::from_utf8(text.to_vec()).unwrap());
    assert_eq!(local.as_bytes()[20], b' ');
    clock::log_time_iso8601(|text| assert_eq!(text[10], b'T'));
    clock::log_time_error(|text| assert_eq!(text[4], b'/'));
    assert!(clock::local_utc_offset().abs() <= 15 * 3600);
}

#[test]
fn random_numbers_differ() {
    let (one, two) = (random::request_id(), random::request_id());
    assert_ne!(one, two);
    assert!(one.iter().all(|digit| digit.is_ascii_hexdigit() && !digit.is_ascii_uppercase()));
    for _ in 0..100 {
        random::request_id();
    }
    assert_ne!(random::next_u64(), random::next_u64());
    let mut seen = [false; 8];
    for _ in 0..1000 {
        seen[usize::try_from(random::below(8)).unwrap()] = true;
    }
    assert_eq!(seen, [true; 8]);
}

/// Runs a test on an event loop of its own; a mistake ends it with a message instead of hanging.
fn on_loop<F: Future>(test: F) -> F::Output {
    block_on(timer::timeout(Duration::from_secs(30), test)).unwrap().expect("the test hangs")
}

#[test]
fn a_deadline_passes() {
    on_loop(async {
        let deadline = Deadline::new();
        let at = Instant::now() + SHORT;
        deadline.set(at);
        deadline.elapsed().await;
        assert!(Instant::now() >= at);
        // It stays elapsed until it is moved.
        deadline.elapsed().await;
    });
}

#[test]
fn a_deadline_that_moves_later_waits_longer() {
    on_loop(async {
        let deadline = Deadline::new();
        let mut elapsed = Box::pin(deadline.elapsed());
        deadline.set(Instant::now() + SHORT);
        // Arms the timer, unless the test was delayed so long that it has elapsed.
        while poll_once(elapsed.as_mut()).await.is_some() {
            elapsed = Box::pin(deadline.elapsed());
            deadline.set(Instant::now() + SHORT);
        }
        let at = Instant::now() + 10 * SHORT;
        deadline.set(at);
        elapsed.await;
        assert!(Instant::now() >= at);
    });
}

#[test]
fn a_deadline_that_moves_earlier_wakes_the_waiter() {
    on_loop(async {
        let deadline = std::rc::Rc::new(Deadline::new());
        deadline.set(Instant::now() + LONG);
        let waiter = std::rc::Rc::clone(&deadline);
        let task = spawn_local(async move { waiter.elapsed().await });
        crate::yield_now().await;
        deadline.set(Instant::now() + SHORT);
        task.await.unwrap();
    });
}

#[test]
fn a_deadline_set_after_the_wait_began_wakes_the_waiter() {
    on_loop(async {
        let deadline = std::rc::Rc::new(Deadline::new());
        // The second round begins with a timer that has fired, the third with an armed one.
        for round in 0..3 {
            let waiter = std::rc::Rc::clone(&deadline);
            let task = spawn_local(async move { waiter.elapsed().await });
            crate::yield_now().await;
            deadline.set_after(SHORT);
            task.await.unwrap();
            deadline.clear();
            assert_eq!(deadline.at(), None);
            if round == 1 {
                deadline.set(Instant::now() + LONG);
                assert!(poll_once(deadline.elapsed()).await.is_none());
                deadline.clear();
            }
        }
        deadline.release();
        assert!(poll_once(deadline.elapsed()).await.is_none());
    });
}

#[test]
fn a_limit_ends_a_future() {
    on_loop(async {
        let deadline = Deadline::new();
        assert_eq!(deadline.limit(async { 1 }).await, Ok(1));
        deadline.set_after(SHORT);
        assert_eq!(deadline.limit(std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(timer::timeout(SHORT, std::future::pending::<()>()).await, Err(Elapsed));
        assert_eq!(timer::timeout(LONG, async { 2 }).await, Ok(2));
        timer::sleep(SHORT).await;
        timer::sleep_until(Instant::now() + SHORT).await;
        // Times beyond the calendar are cut, not refused.
        deadline.set_after(Duration::MAX);
        assert!(deadline.at().unwrap() > Instant::now() + LONG);
    });
}

/// Polls a future a single time with the waker of the running task.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
