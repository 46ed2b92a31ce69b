//! The state machine as tables of inputs and outputs.

use proptest::prelude::*;

use crate::cache::decide::decision::HeadKind::{NotModified, NotStorable, Storable};
use crate::cache::decide::decision::Sharing::{Alone, Shared, TakeOver};
use crate::cache::decide::decision::{CacheDecision, Input, Output};
use crate::cache::decide::decision::{Failure, HeadKind, OriginResult, OriginVerdict};
use crate::cache::decide::facts::{
    CacheRules, Demands, FOLLOW_FROM_BYTES, FillState, StoredState, UseStale,
};
use crate::cache::status::CacheStatus::{Bypass, Expired, Hit, Miss, Stale, Updating};

const RULES: CacheRules = CacheRules {
    lock: false,
    lock_age: 5000,
    lock_timeout: 5000,
    tempfile: false,
    tempfile_timeout: 5000,
    min_uses: 1,
    use_stale: UseStale(0),
    background_update: false,
    revalidate: false,
    background_revalidate: false,
    rfc9111: false,
};

const LOCK: CacheRules = CacheRules { lock: true, ..RULES };
const TEMPFILE: CacheRules = CacheRules { tempfile: true, ..RULES };

const FRESH: StoredState = StoredState {
    fresh: true,
    may_serve_while_updating: false,
    may_serve_on_error: false,
    operator_decides: true,
    max_stale_allows: false,
    has_validators: true,
    filling: None,
};
const STALE: StoredState = StoredState { fresh: false, ..FRESH };

/// A fill that began at 1000 and has received nothing.
const SILENT: FillState = FillState {
    has_head: false,
    arrived: 0,
    promised: None,
    whole: false,
    joinable: true,
    is_stale: false,
    is_hit_for_miss: false,
    suffices: false,
    last_progress: 1000,
};
const SMALL: FillState = FillState { has_head: true, arrived: 10, ..SILENT };
const LARGE: FillState = FillState { promised: Some(FOLLOW_FROM_BYTES + 1), ..SMALL };
const WHOLE: FillState = FillState { whole: true, ..SMALL };

const NEW: Input = Input::Absent { uses: 1 };

fn head(status: u16, kind: HeadKind) -> OriginResult {
    OriginResult::Head { status, kind }
}

/// Checks the verdict about a fetch with this result.
fn check_origin(
    what: &str,
    rules: &CacheRules,
    (now, input, output): (u64, Input, Output),
    result: OriginResult,
    verdict: OriginVerdict,
) {
    let mut decision = CacheDecision::default();
    assert_eq!(decision.step(rules, input, now), output, "{what}");
    assert_eq!(decision.begin_fetch().verdict(rules, result), verdict, "{what}");
}

fn check(what: &str, rules: &CacheRules, steps: &[(u64, Input, Output)]) {
    check_decision(what, CacheDecision::default(), rules, steps);
}

fn check_decision(
    what: &str,
    mut decision: CacheDecision,
    rules: &CacheRules,
    steps: &[(u64, Input, Output)],
) {
    for (number, (now, input, output)) in steps.iter().enumerate() {
        assert_eq!(decision.step(rules, *input, *now), *output, "{what}, step {number}");
    }
}

#[test]
fn hits_and_misses() {
    check("fresh", &RULES, &[(1000, Input::Found(FRESH), Output::Serve(Hit))]);
    check(
        "a fresh one that is renewed all the same",
        &RULES,
        &[(1000, Input::Found(StoredState { filling: Some(SILENT), ..FRESH }), Output::Serve(Hit))],
    );
    check(
        "a fresh one that has just been replaced",
        &RULES,
        &[(1000, Input::Found(StoredState { filling: Some(WHOLE), ..FRESH }), Output::Follow)],
    );
    let miss = (1000, NEW, Output::Fetch(Shared));
    check_origin("miss, stored", &RULES, miss, head(200, Storable), OriginVerdict::Store);
    check_origin("miss, not stored", &RULES, miss, head(200, NotStorable), OriginVerdict::Pass);
    let failed = OriginResult::Failed(Failure::Error);
    check_origin("miss, no response", &RULES, miss, failed, OriginVerdict::Fail);
    let rare = CacheRules { min_uses: 3, ..RULES };
    check("used too seldom", &rare, &[(1000, Input::Absent { uses: 2 }, Output::Pass)]);
    check("used often enough", &rare, &[(1000, Input::Absent { uses: 3 }, Output::Fetch(Shared))]);
    check(
        "not storable lately: no request queues",
        &LOCK,
        &[(
            1000,
            Input::Filling(FillState { is_hit_for_miss: true, ..SILENT }),
            Output::Fetch(Alone),
        )],
    );
    check(
        "left",
        &LOCK,
        &[(1000, NEW, Output::Fetch(Shared)), (1, Input::ClientGone, Output::Leave)],
    );
}

#[test]
fn without_sharing_each_request_fetches() {
    check("running", &RULES, &[(1000, Input::Filling(SMALL), Output::Fetch(Alone))]);
    let small = FillState { promised: Some(10), ..SMALL };
    check("just arriving", &RULES, &[(1050, Input::Filling(small), Output::Follow)]);
    check("arriving slowly", &RULES, &[(2000, Input::Filling(small), Output::Fetch(Alone))]);
    check("just whole", &RULES, &[(1000, Input::Filling(WHOLE), Output::Follow)]);
    check(
        "stale, being renewed",
        &RULES,
        &[(
            1000,
            Input::Found(StoredState { filling: Some(SMALL), ..STALE }),
            Output::Fetch(Alone),
        )],
    );
}

#[test]
fn the_lock_waits_while_bytes_arrive() {
    let until = Output::Wait { until: 6000 };
    check(
        "a small one is waited for",
        &LOCK,
        &[
            (1000, Input::Filling(SILENT), until),
            (2000, Input::FillProgress(FillState { last_progress: 2000, ..SMALL }), until),
            (2500, Input::FillEnded, Output::Look),
            (2500, Input::Found(FRESH), Output::Serve(Hit)),
        ],
    );
    check(
        "a large one is followed",
        &LOCK,
        &[
            (1000, Input::Filling(SILENT), until),
            (2000, Input::FillProgress(LARGE), Output::Follow),
        ],
    );
    let patient = CacheRules { lock_age: 60_000, ..LOCK };
    check(
        "timeout without a byte: alone and unstored",
        &patient,
        &[(1000, Input::Filling(SILENT), until), (6000, Input::TimedOut(SILENT), Output::Pass)],
    );
    check(
        "timeout while bytes come: those",
        &patient,
        &[
            (1000, Input::Filling(SILENT), until),
            (6000, Input::TimedOut(FillState { last_progress: 5900, ..SMALL }), Output::Follow),
        ],
    );
    let short = CacheRules { lock_age: 100, ..LOCK };
    check(
        "age counts from the last byte",
        &short,
        &[
            (1000, Input::Filling(SMALL), Output::Wait { until: 1100 }),
            (
                1100,
                Input::TimedOut(FillState { last_progress: 1090, ..SMALL }),
                Output::Wait { until: 1190 },
            ),
            (
                1190,
                Input::TimedOut(FillState { last_progress: 1090, ..SMALL }),
                Output::Fetch(TakeOver),
            ),
        ],
    );
}

#[test]
fn sufficient_bytes_are_served_without_waiting() {
    let enough = FillState { suffices: true, ..SMALL };
    for rules in [LOCK, TEMPFILE] {
        check("enough is there", &rules, &[(1000, Input::Filling(enough), Output::Follow)]);
        check("however old", &rules, &[(99_000, Input::Filling(enough), Output::Follow)]);
    }
    check(
        "enough comes",
        &LOCK,
        &[
            (1000, Input::Filling(SMALL), Output::Wait { until: 6000 }),
            (2000, Input::FillProgress(enough), Output::Follow),
        ],
    );
    check("no sharing", &RULES, &[(2000, Input::Filling(enough), Output::Fetch(Alone))]);
}

#[test]
fn a_silent_fill_is_replaced() {
    let take_over = Output::Fetch(TakeOver);
    check("large", &LOCK, &[(5999, Input::Filling(LARGE), Output::Follow)]);
    check("large and silent", &LOCK, &[(6000, Input::Filling(LARGE), take_over)]);
    check("with tempfile", &TEMPFILE, &[(6000, Input::Filling(SMALL), take_over)]);
    let stale = |filling| Input::Found(StoredState { filling: Some(filling), ..STALE });
    check("that renews", &TEMPFILE, &[(6000, stale(SMALL), take_over)]);
    check("just now", &TEMPFILE, &[(5999, stale(SMALL), Output::Follow)]);
}

#[test]
fn the_time_of_waiting_goes_on_when_another_request_replaces_a_silent_fill() {
    let rules = CacheRules { lock_age: 2000, ..LOCK };
    let silent = |last_progress| FillState { last_progress, ..SILENT };
    let take_over = Output::Fetch(TakeOver);
    check(
        "faster twice",
        &rules,
        &[
            (1000, Input::Filling(silent(1000)), Output::Wait { until: 3000 }),
            (3000, Input::TimedOut(silent(1000)), take_over),
            (3000, Input::Filling(silent(3000)), Output::Wait { until: 5000 }),
            (5000, Input::TimedOut(silent(3000)), take_over),
            (5000, Input::Filling(silent(5000)), Output::Wait { until: 6000 }),
            (6000, Input::TimedOut(silent(5000)), Output::Pass),
        ],
    );
}

#[test]
fn released_requests_fetch_for_themselves() {
    let waiting = (1000, Input::Filling(SILENT), Output::Wait { until: 6000 });
    let released = (1100, Input::Released, Output::Look);
    check("nothing there", &LOCK, &[waiting, released, (1100, NEW, Output::Fetch(Shared))]);
    check(
        "something stale",
        &LOCK,
        &[waiting, released, (1100, Input::Found(STALE), Output::Fetch(Shared))],
    );
    check(
        "another request has begun",
        &LOCK,
        &[waiting, released, (1100, Input::Filling(SILENT), Output::Fetch(Alone))],
    );
    check(
        "to store it after all",
        &TEMPFILE,
        &[waiting, released, (1100, Input::Filling(SMALL), Output::Follow)],
    );
    let is_hit_for_miss = FillState { is_hit_for_miss: true, ..SMALL };
    check(
        "a head dispels doubts",
        &TEMPFILE,
        &[(1000, Input::Filling(is_hit_for_miss), Output::Follow)],
    );
    check(
        "and is waited for",
        &LOCK,
        &[(1000, Input::Filling(is_hit_for_miss), Output::Wait { until: 6000 })],
    );
    check("a hit", &LOCK, &[waiting, released, (1100, Input::Found(FRESH), Output::Serve(Hit))]);
}

#[test]
fn a_range_beyond_the_offset_is_passed() {
    let mut decision = CacheDecision::default();
    assert_eq!(decision.step(&TEMPFILE, Input::Filling(SMALL), 1000), Output::Follow);
    assert_eq!(decision.step(&TEMPFILE, Input::RangeBeyond, 1000), Output::Pass);
    assert_eq!(decision.status(), Miss);
}

#[test]
fn repeated_failures_end_the_wait() {
    let mut decision = CacheDecision::default();
    for round in 0..8 {
        let wait = Output::Wait { until: 6000 };
        assert_eq!(decision.step(&LOCK, Input::Filling(SILENT), 1000), wait, "round {round}");
        assert_eq!(decision.step(&LOCK, Input::FillEnded, 1001), Output::Look, "round {round}");
    }
    decision.step(&LOCK, Input::Filling(SILENT), 1002);
    assert_eq!(decision.step(&LOCK, Input::FillEnded, 1003), Output::Pass);
    assert_eq!(decision.status(), Miss);
}

#[test]
fn with_tempfile_each_request_follows() {
    check("head is there", &TEMPFILE, &[(1000, Input::Filling(SMALL), Output::Follow)]);
    check(
        "head comes",
        &TEMPFILE,
        &[
            (1000, Input::Filling(SILENT), Output::Wait { until: 6000 }),
            (5000, Input::FillProgress(SMALL), Output::Follow),
        ],
    );
    check(
        "head does not come",
        &TEMPFILE,
        &[
            (1000, Input::Filling(SILENT), Output::Wait { until: 6000 }),
            (6000, Input::TimedOut(SILENT), Output::Pass),
        ],
    );
    check(
        "a stale one that is renewed",
        &TEMPFILE,
        &[(1000, Input::Found(StoredState { filling: Some(SMALL), ..STALE }), Output::Follow)],
    );
}

#[test]
fn a_fill_that_is_no_longer_fresh_serves_those_that_waited() {
    let stale = FillState { is_stale: true, ..SMALL };
    let nearly = FillState { promised: Some(20), ..stale };
    let take_over = Output::Fetch(TakeOver);
    check("a new request", &TEMPFILE, &[(2000, Input::Filling(stale), take_over)]);
    check(
        "for its head",
        &TEMPFILE,
        &[(2000, Input::Filling(FillState { suffices: true, ..stale }), take_over)],
    );
    check("about to end", &TEMPFILE, &[(1050, Input::Filling(nearly), Output::Follow)]);
    check("not any more", &TEMPFILE, &[(2000, Input::Filling(nearly), take_over)]);
    check(
        "waited for",
        &TEMPFILE,
        &[
            (1000, Input::Filling(SILENT), Output::Wait { until: 6000 }),
            (5000, Input::FillProgress(stale), Output::Follow),
        ],
    );
    check("with the lock", &LOCK, &[(2000, Input::Filling(stale), Output::Wait { until: 6000 })]);
}

#[test]
fn a_stale_object_is_kept_for_failures_while_others_are_waited_for() {
    let error = CacheRules { use_stale: UseStale::ERROR, ..TEMPFILE };
    let silent = Input::Found(StoredState { filling: Some(SILENT), ..STALE });
    let unshared = FillState { is_hit_for_miss: true, ..SILENT };
    let unshared = Input::Found(StoredState { filling: Some(unshared), ..STALE });
    let failed = OriginResult::Failed(Failure::Error);
    let mut decision = CacheDecision::default();
    assert_eq!(decision.step(&error, silent, 1000), Output::Wait { until: 6000 });
    assert_eq!(decision.step(&error, Input::TimedOut(SILENT), 6000), Output::Fetch(Alone));
    assert_eq!(decision.status(), Expired);
    assert_eq!(decision.begin_fetch().verdict(&error, failed), OriginVerdict::ServeStale);
    let alone = (1000, unshared, Output::Fetch(Alone));
    check_origin("behind a failure", &error, alone, failed, OriginVerdict::ServeStale);
    let revalidate = CacheRules { revalidate: true, ..error.clone() };
    let alone = (1000, unshared, Output::Revalidate(Alone));
    check_origin("to be revalidated", &revalidate, alone, failed, OriginVerdict::ServeStale);
    check(
        "forgotten with the object",
        &error,
        &[
            (1000, silent, Output::Wait { until: 6000 }),
            (2000, Input::FillEnded, Output::Look),
            (2000, Input::Filling(SILENT), Output::Wait { until: 6000 }),
            (6000, Input::TimedOut(SILENT), Output::Pass),
        ],
    );
    let lock = CacheRules { lock_age: 60_000, ..LOCK };
    check(
        "by the lock too",
        &lock,
        &[
            (1000, silent, Output::Wait { until: 6000 }),
            (6000, Input::TimedOut(SILENT), Output::Fetch(Alone)),
        ],
    );
}

#[test]
fn expired_objects() {
    let revalidate = CacheRules { revalidate: true, ..RULES };
    check("fetched anew", &RULES, &[(1000, Input::Found(STALE), Output::Fetch(Shared))]);
    let ask = (1000, Input::Found(STALE), Output::Revalidate(Shared));
    let renewed = head(304, NotModified);
    check_origin("revalidated", &revalidate, ask, renewed, OriginVerdict::Renew);
    check_origin("changed", &revalidate, ask, head(200, Storable), OriginVerdict::Store);
    check(
        "nothing to revalidate by",
        &revalidate,
        &[(
            1000,
            Input::Found(StoredState { has_validators: false, ..STALE }),
            Output::Fetch(Shared),
        )],
    );
    let mut decision = CacheDecision::default();
    decision.step(&RULES, Input::Found(STALE), 1000);
    assert_eq!(decision.status(), Expired);
}

#[test]
fn stale_objects_on_errors() {
    let rules = |use_stale| CacheRules { use_stale, ..RULES };
    let fetch = (1000, Input::Found(STALE), Output::Fetch(Shared));
    let failed = |what, rules: &CacheRules, fetch, failure, verdict| {
        check_origin(what, rules, fetch, OriginResult::Failed(failure), verdict);
    };
    let (serve, fail) = (OriginVerdict::ServeStale, OriginVerdict::Fail);
    failed("no", &RULES, fetch, Failure::Error, fail);
    failed("error", &rules(UseStale::ERROR), fetch, Failure::Error, serve);
    failed("not timeout", &rules(UseStale::ERROR), fetch, Failure::Timeout, fail);
    failed("timeout", &rules(UseStale::TIMEOUT), fetch, Failure::Timeout, serve);
    let invalid = Failure::InvalidHeader;
    failed("invalid header", &rules(UseStale::INVALID_HEADER), fetch, invalid, serve);
    let on_500 = rules(UseStale::HTTP_500);
    check_origin("status, though it could be stored", &on_500, fetch, head(500, Storable), serve);
    let other = head(502, NotStorable);
    check_origin("another status", &on_500, fetch, other, OriginVerdict::Pass);
    let lenient = StoredState { may_serve_on_error: true, ..STALE };
    let fetch = (1000, Input::Found(lenient), Output::Fetch(Shared));
    failed("stale-if-error", &RULES, fetch, Failure::Timeout, serve);
    let status = head(500, NotStorable);
    check_origin("not for statuses", &RULES, fetch, status, OriginVerdict::Pass);
}

#[test]
fn stale_objects_while_they_are_updated() {
    let renewed = Input::Found(StoredState { filling: Some(SILENT), ..STALE });
    let updating = CacheRules { use_stale: UseStale::UPDATING, ..RULES };
    check("the first one fetches", &updating, &[(1, Input::Found(STALE), Output::Fetch(Shared))]);
    check("the others do not", &updating, &[(1, renewed, Output::Serve(Updating))]);
    let behind = CacheRules { background_update: true, revalidate: true, ..updating };
    let refresh = Output::ServeStaleAndRefresh { conditional: true };
    check("in the background", &behind, &[(1, Input::Found(STALE), refresh)]);
    check("others meanwhile", &behind, &[(1, renewed, Output::Serve(Updating))]);
    let tolerant = StoredState { may_serve_while_updating: true, ..STALE };
    let only_behind = CacheRules { background_update: true, ..RULES };
    let refresh = Output::ServeStaleAndRefresh { conditional: false };
    check("stale-while-revalidate", &only_behind, &[(1, Input::Found(tolerant), refresh)]);
    check("not without it", &only_behind, &[(1, Input::Found(STALE), Output::Fetch(Shared))]);
    let whole = Input::Found(StoredState { filling: Some(WHOLE), ..STALE });
    check("just renewed", &behind, &[(1, whole, Output::Follow)]);
}

#[test]
fn bypassing_stores() {
    let mut decision = CacheDecision::bypassing();
    assert_eq!(decision.status(), Bypass);
    let fetch = decision.begin_fetch();
    assert_eq!(fetch.status(), Bypass);
    assert_eq!(fetch.verdict(&RULES, head(200, Storable)), OriginVerdict::Store);
    let failed = OriginResult::Failed(Failure::Error);
    assert_eq!(fetch.verdict(&RULES, failed), OriginVerdict::Fail);
}

#[test]
fn prohibitions_of_stale_responses_are_obeyed() {
    let strict = StoredState { operator_decides: false, ..STALE };
    let rules = CacheRules {
        use_stale: UseStale::ERROR.with(UseStale::HTTP_503).with(UseStale::UPDATING),
        background_update: true,
        rfc9111: true,
        ..RULES
    };
    let ask = (1000, Input::Found(strict), Output::Fetch(Shared));
    let failed = OriginResult::Failed(Failure::Error);
    check_origin("not on errors", &rules, ask, failed, OriginVerdict::Fail);
    let unavailable = head(503, NotStorable);
    check_origin("not for a 503", &rules, ask, unavailable, OriginVerdict::Pass);
    let renewed = Input::Found(StoredState { filling: Some(SILENT), ..strict });
    check("not while updating", &rules, &[(1000, renewed, Output::Fetch(Alone))]);
    let tolerant = Input::Found(StoredState { may_serve_on_error: true, ..strict });
    let ask = (1000, tolerant, Output::Fetch(Shared));
    let rules = CacheRules { use_stale: UseStale(0), ..rules };
    for status in [500, 502, 503, 504] {
        let failed = head(status, NotStorable);
        check_origin("stale-if-error", &rules, ask, failed, OriginVerdict::ServeStale);
    }
    let unknown = head(501, NotStorable);
    check_origin("501 is a response", &rules, ask, unknown, OriginVerdict::Pass);
    let nginx = CacheRules { rfc9111: false, ..rules };
    check_origin("nginx's rule", &nginx, ask, unavailable, OriginVerdict::Pass);
    let welcome = Input::Found(StoredState { max_stale_allows: true, ..strict });
    check("max-stale", &rules, &[(1000, welcome, Output::Serve(Stale))]);
}

#[test]
fn a_fill_that_is_not_for_this_request_is_not_waited_for() {
    let other = FillState { joinable: false, ..SMALL };
    let whole = FillState { joinable: false, ..WHOLE };
    for rules in [&RULES, &LOCK, &TEMPFILE] {
        for filling in [other, whole] {
            check("no object", rules, &[(1000, Input::Filling(filling), Output::Fetch(Alone))]);
            let found = Input::Found(StoredState { filling: Some(filling), ..STALE });
            check("a stale one", rules, &[(1000, found, Output::Fetch(Alone))]);
        }
        let progress = (1000, Input::FillProgress(other), Output::Fetch(Alone));
        let stored = head(200, Storable);
        check_origin("progress while waiting", rules, progress, stored, OriginVerdict::Store);
    }
}

#[test]
fn demands_are_met() {
    let stored = Demands { only_if_cached: true, no_store: false };
    let check = |demands, input, expected| {
        check_decision("demand", CacheDecision::new(demands), &RULES, &[(1000, input, expected)]);
    };
    check(stored, Input::Found(FRESH), Output::Serve(Hit));
    check(stored, Input::Found(STALE), Output::Refuse);
    check(stored, NEW, Output::Refuse);
    check(stored, Input::Absent { uses: 0 }, Output::Refuse);
    check(stored, Input::Filling(WHOLE), Output::Follow);
    let unstored = Demands { only_if_cached: false, no_store: true };
    check(unstored, Input::Found(FRESH), Output::Serve(Hit));
    check(unstored, Input::Found(STALE), Output::Pass);
    check(unstored, NEW, Output::Pass);
    let updating = StoredState { may_serve_while_updating: true, ..STALE };
    let rules = CacheRules { background_revalidate: true, ..RULES };
    let refresh = Output::ServeStaleAndRefresh { conditional: false };
    check_decision(
        "a refresh",
        CacheDecision::default(),
        &rules,
        &[(1000, Input::Found(updating), refresh)],
    );
    let steps = [(1000, Input::Found(updating), Output::Serve(Stale))];
    check_decision("a refresh that is not stored", CacheDecision::new(unstored), &rules, &steps);
}

fn any_filling() -> impl Strategy<Value = FillState> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, 0..100_000u64, proptest::option::of(0..200_000u64), 0..20_000u64).prop_map(
        |((has_head, whole, joinable, suffices), arrived, promised, last_progress)| FillState {
            has_head,
            arrived,
            promised,
            whole,
            joinable,
            is_stale: joinable && suffices,
            is_hit_for_miss: suffices,
            suffices,
            last_progress,
        },
    )
}

fn any_stored_state() -> impl Strategy<Value = StoredState> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, any::<bool>(), proptest::option::of(any_filling())).prop_map(
        |(flags, fresh, filling)| StoredState {
            fresh,
            may_serve_while_updating: flags.0,
            may_serve_on_error: flags.1,
            operator_decides: flags.2,
            max_stale_allows: flags.3,
            has_validators: flags.4,
            filling,
        },
    )
}

/// Inputs before the origin is asked.
fn any_lookup_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        any_stored_state().prop_map(Input::Found),
        any_filling().prop_map(Input::Filling),
        any_filling().prop_map(Input::FillProgress),
        any_filling().prop_map(Input::TimedOut),
        (0..3u32).prop_map(|uses| Input::Absent { uses }),
        Just(Input::FillEnded),
        Just(Input::Released),
        Just(Input::RangeBeyond),
    ]
}

fn any_rules() -> impl Strategy<Value = CacheRules> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, any::<u16>(), any::<bool>(), 0..3u32).prop_map(
        |((lock, tempfile, update, revalidate, rfc9111), stale, refresh, min_uses)| CacheRules {
            lock,
            tempfile,
            min_uses,
            use_stale: UseStale(stale),
            background_update: update,
            background_revalidate: refresh,
            revalidate,
            rfc9111,
            ..RULES
        },
    )
}

proptest! {
    #[test]
    fn only_if_cached_never_asks(
        rules in any_rules(), looks in proptest::collection::vec((any_lookup_input(), 0..20_000u64), 1..12),
    ) {
        let mut decision = CacheDecision::new(Demands { only_if_cached: true, no_store: false });
        for (input, now) in looks {
            let output = decision.step(&rules, input, now);
            let asks = matches!(output, Output::Fetch(_) | Output::Revalidate(_) | Output::Pass);
            prop_assert!(!asks, "{input:?} {output:?}");
        }
    }

    #[test]
    fn no_store_begins_nothing_that_is_kept(
        rules in any_rules(), looks in proptest::collection::vec((any_lookup_input(), 0..20_000u64), 1..12),
    ) {
        let mut decision = CacheDecision::new(Demands { only_if_cached: false, no_store: true });
        for (input, now) in looks {
            let output = decision.step(&rules, input, now);
            let fills = matches!(
                output,
                Output::Fetch(_) | Output::Revalidate(_) | Output::ServeStaleAndRefresh { .. }
            );
            prop_assert!(!fills, "{input:?} {output:?}");
        }
    }

    /// Whatever the origin's response or failure, and whatever the operator allows.
    #[test]
    fn must_revalidate_forbids_stale_responses(
        rules in any_rules(), stored in any_stored_state(), status in 200..600u16,
        failure in 0..3usize, now in 0..20_000u64,
    ) {
        let strict = StoredState {
            fresh: false,
            may_serve_while_updating: false,
            may_serve_on_error: false,
            operator_decides: false,
            max_stale_allows: false,
            ..stored
        };
        let failure = [Failure::Error, Failure::Timeout, Failure::InvalidHeader][failure];
        let mut decision = CacheDecision::default();
        let output = decision.step(&rules, Input::Found(strict), now);
        let stale = matches!(output, Output::Serve(_) | Output::ServeStaleAndRefresh { .. });
        prop_assert!(!stale, "{output:?}");
        let fetch = decision.begin_fetch();
        let failed = OriginResult::Failed(failure);
        for result in [head(status, Storable), head(status, NotStorable), failed] {
            let verdict = fetch.verdict(&rules, result);
            prop_assert!(verdict != OriginVerdict::ServeStale, "{result:?}");
        }
    }
}
