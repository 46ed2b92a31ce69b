//! Which thread leaves new connections to others, and how many idle connections are closed to make room.

use super::is_ahead;
use crate::parking::reused_of;

#[test]
fn a_thread_is_ahead_with_eight_more_than_the_mean_and_its_share() {
    for (own, all, threads, expected) in [
        (8, 8, 4, false),
        (10, 8, 4, false),
        (11, 8, 4, true),
        (8, 0, 2, false),
        (9, 0, 2, true),
        // A mean of 3200 allows a hundred more.
        (3308, 6400, 2, false),
        (3309, 6400, 2, true),
    ] {
        assert_eq!(is_ahead(own, all, threads), expected, "{own} of {all}, {threads} threads");
    }
}

#[test]
fn an_eighth_of_idle_connections_makes_room_and_at_most_32() {
    for (idle, expected) in
        [(0, 1), (1, 1), (7, 1), (16, 2), (255, 31), (256, 32), (257, 32), (100_000, 32)]
    {
        assert_eq!(reused_of(idle), expected, "{idle}");
    }
}
