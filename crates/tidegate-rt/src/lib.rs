//! Worker loop, clock, timers, sockets, blocking pools: the only door to tokio
#![forbid(unsafe_code)]
