//! Peers, balancing, connection pools, retries towards origins
#![forbid(unsafe_code)]
