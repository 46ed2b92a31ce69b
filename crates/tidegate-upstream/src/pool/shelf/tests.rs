//! Any sequence of calls, compared with a simple list.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A call on the shelf. Servers, limits and times are small, so that calls meet.
#[derive(Clone, Debug)]
enum Call {
    Put {
        server: u64,
        lives_ms: u64,
    },
    Take {
        server: u64,
    },
    Spare {
        server: u64,
    },
    /// The origin closes the connection of that number.
    Close {
        number: usize,
    },
    Wait {
        ms: u64,
    },
    Sweep,
    Trim {
        most: usize,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let server = 0..3u64;
    prop_oneof![
        4 => (server.clone(), 1..400u64).prop_map(|(server, lives_ms)| Call::Put { server, lives_ms }),
        2 => server.clone().prop_map(|server| Call::Take { server }),
        2 => server.prop_map(|server| Call::Spare { server }),
        1 => (0..40usize).prop_map(|number| Call::Close { number }),
        2 => (0..150u64).prop_map(|ms| Call::Wait { ms }),
        1 => Just(Call::Sweep),
        2 => (0..6usize).prop_map(|most| Call::Trim { most }),
    ]
}

fn fit(server: u64) -> Fit {
    Fit { peer: server, tag: 0, wire: 0, brief: false, local: None, tls: None }
}

/// A connection in the model: its number, its server, since and until when it is idle.
type Known = (usize, u64, Instant, Instant);

proptest! {
    #[test]
    fn connections_are_used_once_and_in_order(calls in vec(call(), 0..60), most in 1..9usize) {
        let mut shelf: Shelf<usize> = Shelf::new();
        let mut model: Vec<Known> = Vec::new();
        let mut closed: Vec<usize> = Vec::new();
        let mut now = tidegate_rt::clock::now();
        let mut next = 0;
        for call in calls {
            let lives = |known: &Known| now < known.3 && !closed.contains(&known.0);
            match call {
                Call::Put { server, lives_ms } => {
                    let until = now + Duration::from_millis(lives_ms);
                    shelf.put(Idle { connection: next, fit: fit(server), since: now, until }, most);
                    let has_like = model.iter().any(|known| known.1 == server);
                    if model.len() >= most && (!has_like || model.len() >= most + EXCESS_MAX) {
                        model.remove(0);
                    }
                    model.push((next, server, now, until));
                    next += 1;
                }
                Call::Take { server } => {
                    let got = shelf.take(&fit(server), now, |number| !closed.contains(number));
                    let expected = model.iter().rev().find(|known| known.1 == server && lives(known));
                    let expected = expected.copied();
                    prop_assert_eq!(got, expected.map(|known| known.0));
                    // Closed ones that were met on the way are removed.
                    let limit = expected.map_or(0, |known| known.0);
                    model.retain(|known| known.1 != server || known.0 < limit);
                }
                Call::Spare { server } => {
                    let got = shelf.spare(&fit(server), now, |number| !closed.contains(number));
                    let spare = |known: &&Known| known.1 == server && now - known.2 >= SPARE_AFTER;
                    let expected = model.iter().filter(spare).find(|known| lives(known)).copied();
                    prop_assert_eq!(got.map(|idle| idle.connection), expected.map(|known| known.0));
                    let limit = expected.map_or(usize::MAX, |known| known.0);
                    model.retain(|known| !spare(&known) || known.0 > limit);
                }
                Call::Close { number } => closed.push(number),
                Call::Wait { ms } => now += Duration::from_millis(ms),
                Call::Sweep => {
                    shelf.retain(|idle| now < idle.until && !closed.contains(&idle.connection));
                    model.retain(lives);
                }
                Call::Trim { most } => {
                    let left = shelf.trim(most, now);
                    while model.len() > most && now - model[0].2 >= EXCESS_IDLE {
                        model.remove(0);
                    }
                    prop_assert_eq!(left, model.len() > most);
                }
            }
            prop_assert_eq!(shelf.len(), model.len());
            prop_assert_eq!(shelf.oldest(), model.first().map(|known| known.2));
            let servers = model.iter().fold(0, |servers, known| servers | server_bit(known.1));
            prop_assert_eq!(shelf.servers(), servers);
        }
    }

    #[test]
    fn a_returned_connection_has_its_old_place(ages in vec(0..1000u64, 1..10), back in 0..1000u64) {
        let start = tidegate_rt::clock::now();
        let idle = |age: u64| {
            let since = start + Duration::from_millis(age);
            Idle { connection: age, fit: fit(1), since, until: since + SPARE_AFTER }
        };
        let mut ages = ages;
        ages.sort_unstable();
        let mut shelf = Shelf::new();
        ages.iter().for_each(|age| shelf.put(idle(*age), 100));
        shelf.put(idle(back), 100);
        ages.push(back);
        ages.sort_unstable();
        let mut seen = Vec::new();
        shelf.retain(|idle| {
            seen.push(idle.connection);
            true
        });
        prop_assert_eq!(seen, ages);
    }
}

#[test]
fn above_the_number_are_those_that_were_in_use_together_and_not_for_long() {
    let now = tidegate_rt::clock::now();
    let idle = |number: usize, server| Idle {
        connection: number,
        fit: fit(server),
        since: now,
        until: now + 2 * SPARE_AFTER,
    };
    let mut shelf = Shelf::new();
    let rest = |shelf: &mut Shelf<usize>| {
        let mut rest = Vec::new();
        shelf.retain(|idle| {
            rest.push(idle.connection);
            true
        });
        rest
    };
    for (number, server) in [(0, 1), (1, 1), (2, 1)] {
        shelf.put(idle(number, server), 1);
    }
    assert_eq!(rest(&mut shelf), [0, 1, 2]);
    // Another server's takes the place of the one idle longest.
    shelf.put(idle(3, 2), 1);
    assert_eq!(rest(&mut shelf), [1, 2, 3]);
    assert!(shelf.trim(1, now + EXCESS_IDLE / 2));
    assert!(!shelf.trim(1, now + EXCESS_IDLE));
    assert_eq!(rest(&mut shelf), [3]);
    // Their number is limited all the same.
    for number in 0..2 * EXCESS_MAX {
        shelf.put(idle(number, 2), 1);
    }
    assert_eq!(shelf.len(), 1 + EXCESS_MAX);
}
