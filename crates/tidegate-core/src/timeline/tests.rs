//! The share of each cause, the verdict, text forms, and futures whose waits are recorded.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tidegate_rt::blocking::ThreadPool;

use super::view::Verdict;
use super::*;
use crate::blocking;
use crate::tests::wait;

fn view(total: u32, spent: &[(Cause, u32)]) -> View {
    let mut view = View { total, ..View::default() };
    for (place, (cause, time)) in spent.iter().enumerate() {
        view.spent[*cause as usize] = *time;
        view.ended[*cause as usize] = place as u32 + 1;
    }
    view
}

#[test]
fn the_verdict_is_the_largest_share_that_matters() {
    use Cause::*;
    for (total, spent, expected) in [
        (0, &[][..], "none"),
        (5000, &[], "none"),
        (5000, &[(Connect, 999)], "none"),
        (5000, &[(Connect, 1000)], "connect"),
        (10_001, &[(Connect, 1000)], "none"),
        (9000, &[(Connect, 2000), (OriginThink, 3000), (Loop, 2999)], "origin_think"),
        // Of equal ones the first in the list.
        (9000, &[(Connect, 3000), (OriginThink, 3000)], "origin_think"),
        (9000, &[(Other, 8000), (Auth, 1000)], "auth"),
        (u32::MAX, &[(ClientSlowRead, u32::MAX)], "client_slow_read"),
    ] {
        assert_eq!(view(total, spent).verdict().name(), expected, "{total} {spent:?}");
    }
}

#[test]
fn names_and_numbers_are_those_of_the_list() {
    for (number, cause) in Cause::ALL.into_iter().enumerate() {
        assert_eq!((cause as usize, Cause::numbered(number as u8)), (number, cause));
    }
    assert_eq!(Cause::numbered(200), Cause::Other);
}

#[test]
fn text_forms() {
    let mut view = view(1_832_104, &[(Cause::Connect, 1500), (Cause::OriginThink, 1_710_000)]);
    (view.head, view.response) = (Some(120), Some(1_800_000));
    let mut json = String::new();
    view.write_json(&mut json);
    assert_eq!(
        json,
        "{\"total\":1.832104,\"verdict\":\"origin_think\",\"share\":1.710000,\"head\":0.000120,\
         \"response\":1.800000,\"waits\":{\"connect\":{\"time\":0.001500,\"end\":0.000001},\
         \"origin_think\":{\"time\":1.710000,\"end\":0.000002}}}"
    );
    let short = "total;dur=1832.104, verdict;desc=\"origin_think\";dur=1710.000";
    assert_eq!(view.server_timing(false), short);
    let waits = ", head;dur=0.120, connect;dur=1.500, origin_think;dur=1710.000";
    assert_eq!(view.server_timing(true), format!("{short}{waits}"));
    let mut empty = String::new();
    View::default().write_json(&mut empty);
    assert_eq!(empty, "{\"total\":0.000000,\"verdict\":\"none\",\"share\":0.000000,\"waits\":{}}");
}

#[test]
fn a_handshake_counts_for_the_first_request() {
    let started = now();
    let timeline = Timeline::begun(started, Some(Duration::from_millis(30)));
    let view = timeline.view(started + Duration::from_millis(10)).unwrap();
    assert_eq!((view.total, view.verdict().name()), (40_000, "tls"));
    assert_eq!((view.head, view.response), (Some(30_000), None));
    // The rest is work.
    assert_eq!(view.spent[Cause::Loop as usize], 10_000);
    assert_eq!(view.waits().len(), 2);
}

#[test]
fn the_client_is_blamed_for_the_rest_of_its_head() {
    let timeline = Timeline::begun(now(), None);
    let began = now();
    while now() - began < Duration::from_millis(5) {}
    timeline.head_part();
    let view = timeline.view(now()).unwrap();
    assert!(view.spent[Cause::ClientSlowUpload as usize] >= 5000, "{view:?}");
    assert!(view.head >= Some(5000) && view.response.is_none(), "{view:?}");
    timeline.lose_head();
    assert_eq!(timeline.view(now()).unwrap().head, None);
}

#[test]
fn memory_is_used_again_and_nothing_of_the_request_before_is_left() {
    let started = now();
    let timeline = Timeline::begun(started, Some(Duration::from_secs(9)));
    let earlier = timeline.reference();
    cause_after(&timeline, waiting(&[Cause::Auth]));
    timeline.note_response();
    timeline.end();
    assert_eq!(timeline.view(started), None);
    timeline.begin(started, None);
    let expected = View { head: Some(0), ..View::default() };
    assert_eq!(timeline.view(started), Some(expected.clone()));
    // Work that was begun for the earlier request is not this one's.
    let mut fetch = std::pin::pin!(beside(Some(earlier), waiting(&[Cause::Dns])));
    assert!(fetch.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(timeline.view(started), Some(expected));
}

#[test]
fn a_response_without_a_wait_is_there_at_the_next_wait_or_the_end() {
    let started = now();
    let timeline = Timeline::begun(started, None);
    assert_eq!(cause_after(&timeline, async {}), Cause::Loop);
    assert_eq!(timeline.view(started).unwrap().response, None);
    timeline.note_response();
    let end = started + Duration::from_secs(1);
    assert_eq!(timeline.view(end).unwrap().response, Some(1_000_000));
    cause_after(&timeline, waiting(&[Cause::ClientSlowRead]));
    let response = timeline.view(end).unwrap().response;
    assert!(response.is_some());
    assert_eq!(timeline.view(end + Duration::from_secs(1)).unwrap().response, response);
}

/// Polls once, and returns the cause of the time from then on.
fn cause_after<F: Future>(timeline: &Rc<Timeline>, future: F) -> Cause {
    let mut recorded = std::pin::pin!(around(Some(timeline), future));
    let _ = recorded.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    timeline.cause.get()
}

/// Waits for all of these forever.
fn waiting(causes: &'static [Cause]) -> impl Future<Output = ()> {
    poll_fn(move |_| {
        causes.iter().for_each(|cause| waits_for(*cause));
        Poll::Pending
    })
}

#[test]
fn one_cause_of_several_counts_whatever_their_order() {
    use Cause::*;
    let timeline = Timeline::begun(now(), None);
    for (causes, expected) in [
        (&[][..], Other),
        (&[OriginThink], OriginThink),
        (&[OriginThink, ClientSlowUpload], ClientSlowUpload),
        (&[ClientSlowUpload, OriginThink], ClientSlowUpload),
        (&[ClientSlowRead, OriginStream], ClientSlowRead),
    ] {
        assert_eq!(cause_after(&timeline, waiting(causes)), expected, "{causes:?}");
        // What the request does for its authorization belongs to that.
        let asked = blame(Auth, waiting(causes));
        assert_eq!(cause_after(&timeline, asked), Auth, "{causes:?}");
    }
    // That wait was given up, and goes on until another one begins.
    assert_eq!(cause_after(&timeline, async {}), Auth);
    assert_eq!(cause_after(&Timeline::begun(now(), None), async {}), Loop, "it runs");
}

#[test]
fn nothing_is_recorded_outside_of_a_timeline() {
    let context = &mut Context::from_waker(Waker::noop());
    waits_for(Cause::Auth);
    queued(Duration::from_secs(9));
    let mut off = std::pin::pin!(around(None, waiting(&[Cause::Auth])));
    assert!(off.as_mut().poll(context).is_pending());
    let timeline = Timeline::begun(now(), None);
    assert_eq!(cause_after(&timeline, waiting(&[])), Cause::Other);
    // What a poll has named before it panicked is forgotten as well.
    let panics = poll_fn::<(), _>(|_| {
        waits_for(Cause::Auth);
        panic!("in a request")
    });
    let caught = catch_unwind(AssertUnwindSafe(|| cause_after(&timeline, panics)));
    assert!(caught.is_err());
    assert_eq!(cause_after(&timeline, waiting(&[])), Cause::Other);
    let off = Rc::new(Timeline::default());
    cause_after(&off, waiting(&[Cause::Auth]));
    assert_eq!(off.view(now()), None);
}

#[test]
fn a_task_beside_the_request_names_its_waits() {
    let timeline = Timeline::begun(now(), None);
    let context = &mut Context::from_waker(Waker::noop());
    let mut request = std::pin::pin!(around(
        Some(&timeline),
        poll_fn::<(), _>(|_| {
            waits_as_before();
            Poll::Pending
        })
    ));
    // Until the task begins, the cause is not known.
    assert!(request.as_mut().poll(context).is_pending());
    assert_eq!(timeline.cause.get(), Cause::Other);
    let reference = timeline.reference();
    let mut fetch = std::pin::pin!(beside(Some(reference.clone()), waiting(&[Cause::Dns])));
    assert!(fetch.as_mut().poll(context).is_pending());
    assert_eq!(timeline.cause.get(), Cause::Dns);
    // That the request is polled meanwhile changes nothing.
    assert!(request.as_mut().poll(context).is_pending());
    assert_eq!(timeline.cause.get(), Cause::Dns);
    let mut ended = std::pin::pin!(beside(Some(reference), async {}));
    assert!(ended.as_mut().poll(context).is_ready());
    assert_eq!(timeline.cause.get(), Cause::Other);
    assert_eq!(timeline.view(now()).unwrap().response, None);
}

/// Keeps a thread busy for a time that no other wait of these tests has.
fn stall() {
    let until = now() + Duration::from_millis(60);
    while now() < until {}
}

fn verdict_of<F: Future>(work: impl FnOnce() -> F) -> Verdict {
    let timeline = Timeline::begun(now(), None);
    wait(around(Some(&timeline), async { work().await }));
    timeline.view(now()).unwrap().verdict()
}

#[test]
fn the_disk_is_distinguished_from_the_queue_before_it() {
    let pool = ThreadPool::new("one", 1, 5).unwrap();
    let job = || {
        stall();
        Ok(())
    };
    let verdict = verdict_of(|| blocking::run_on(Some(&pool), job));
    assert_eq!(verdict.name(), "disk");
    let (begun, begins) = mpsc::channel();
    let busy = pool.submit(move || {
        begun.send(()).unwrap();
        stall();
    });
    begins.recv().unwrap();
    let verdict = verdict_of(|| blocking::run_on(Some(&pool), || Ok(())));
    assert_eq!(verdict.name(), "pool");
    drop(busy);
}

#[test]
fn work_of_the_request_itself_belongs_to_the_event_loop() {
    let verdict = verdict_of(|| async { stall() });
    assert_eq!(verdict.name(), "loop");
}

proptest! {
    /// Whatever a request waits for, in whatever order: no moment counts twice.
    #[test]
    fn shares_never_exceed_the_whole(
        steps in proptest::collection::vec((0..16_u8, 0..2_000_000_u64, 0..100_000_u64), 0..40),
        handshake in 0..1_000_000_u64,
    ) {
        let started = now();
        let timeline = Timeline::begun(started, Some(Duration::from_micros(handshake)));
        let mut at = started;
        for (cause, waited, worked) in steps {
            at += Duration::from_micros(waited);
            let before = timeline.resume(at);
            timeline.move_to_pool(before, Duration::from_micros(waited / 2));
            at += Duration::from_micros(worked);
            timeline.pause(at, Cause::numbered(cause));
            let view = timeline.view(at).unwrap();
            let sum: u64 = view.spent.iter().map(|spent| u64::from(*spent)).sum();
            prop_assert!(sum <= u64::from(view.total), "{sum} of {}", view.total);
            prop_assert!(view.ended.iter().all(|end| *end <= view.total));
        }
    }

    /// A cause that takes more time stays the verdict, and one that takes less does not become it.
    #[test]
    fn the_verdict_is_monotone(
        spent in proptest::array::uniform16(0..1_000_000_u32),
        more in 1..1_000_000_u32,
    ) {
        let total = spent.iter().sum();
        let view = View { total, spent, ..View::default() };
        let verdict = view.verdict();
        prop_assert!(verdict.time <= view.total);
        if let Some(cause) = verdict.cause {
            let mut longer = view.clone();
            longer.spent[cause as usize] += more;
            longer.total += more;
            prop_assert_eq!(longer.verdict().cause, Some(cause));
            prop_assert_eq!(longer.verdict().time, verdict.time + more);
            for other in Cause::ALL.into_iter().filter(|other| *other != cause) {
                let mut less = view.clone();
                less.spent[other as usize] /= 2;
                prop_assert_eq!(less.verdict().cause, Some(cause));
            }
        }
    }
}
