//! The retry machine as tables of events and decisions.

use super::*;

fn retry(policy: u16, tries: u32, idempotent: bool) -> Retry {
    Retry {
        policy: NextUpstream(policy),
        tries_left: tries,
        until: None,
        idempotent,
        repeatable: true,
        sent: true,
        unprocessed_left: 2,
    }
}

fn check(name: &str, mut retry: Retry, events: &[(Event, Decision, Blame)]) {
    let now = tidegate_rt::clock::now();
    for (at, (event, decision, blame)) in events.iter().enumerate() {
        assert_eq!(retry.decide(*event, now), (*decision, *blame), "{name}, step {at}");
    }
}

#[test]
fn decisions() {
    use {Blame::*, Decision::*, Event::*};
    let default = NextUpstream::DEFAULT.0;
    let with = |case: NextUpstream| default | case.0;
    check(
        "two servers refuse",
        retry(default, 2, true),
        &[(Refused, NextPeer, Failed), (Refused, GiveUp(502), Failed)],
    );
    check("timeout is 504", retry(default, 1, true), &[(TimedOut, GiveUp(504), Failed)]);
    check(
        "garbage is not retried by default",
        retry(default, 2, true),
        &[(Invalid, GiveUp(502), Failed)],
    );
    check("a sent POST is not repeated", retry(default, 2, false), &[(Lost, GiveUp(502), Failed)]);
    check(
        "unless configured",
        retry(with(NextUpstream::NON_IDEMPOTENT), 2, false),
        &[(Lost, NextPeer, Failed)],
    );
    check(
        "an idle connection closed under us",
        retry(default, 1, true),
        &[(ReusedLost, SamePeer, None), (Head(200), Accept, None)],
    );
    check(
        "even with retries off",
        retry(NextUpstream::OFF.0, 1, true),
        &[(ReusedLost, SamePeer, None)],
    );
    check("but not for POST", retry(default, 2, false), &[(ReusedLost, GiveUp(502), Failed)]);
    check(
        "listed statuses",
        retry(with(NextUpstream::HTTP_404), 2, true),
        &[(Head(404), NextPeer, None), (Head(404), Accept, None)],
    );
    check(
        "500 is a failure when listed, but not where it is passed on",
        retry(with(NextUpstream::HTTP_500), 2, true),
        &[(Head(500), NextPeer, Failed), (Head(500), Accept, None)],
    );
    check("500 passes when not", retry(default, 2, true), &[(Head(500), Accept, None)]);
    check("off", retry(NextUpstream::OFF.0 | 1, 2, true), &[(Refused, GiveUp(502), Failed)]);
}

#[test]
fn nothing_was_sent_so_anything_may_be_repeated() {
    let mut retry = retry(NextUpstream::DEFAULT.0, 2, false);
    retry.sent = false;
    let now = tidegate_rt::clock::now();
    assert_eq!(retry.decide(Event::Refused, now).0, Decision::NextPeer);
}
