//! Connection numbers ("connection IDs", RFC 9000 section 5.1) that carry the thread which serves them.
//!
//! ```text
//! byte   0         1 2            3 … 7     8 … 11
//!        steering  thread ^ mask  random    check
//! ```
//!
//! A filter of the kernel reads the steering byte alone: modulo the number of threads it is the thread. Where that number
//! has changed since, or there is no filter, the thread that receives a packet reads the masked thread and passes the
//! packet on. Mask and check are keyed hashes of the bytes around them: without the key, numbers can be neither linked nor
//! made up so that a thread passes packets on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of each number.
pub(crate) const BYTES: usize = 12;
const CHECKED: usize = 8;

/// Makes and reads numbers.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    key: u64,
    thread: u16,
    /// Shared with the generators of the endpoint's connections.
    threads: Arc<AtomicU16>,
}

impl Numbers {
    /// Makes the numbers of one of `threads` threads, from 0; `key` is the same for all of them.
    pub(crate) fn new(key: u64, thread: u16, threads: u16) -> Numbers {
        Numbers { key, thread, threads: Arc::new(AtomicU16::new(threads.max(1))) }
    }

    /// Returns the thread that has made a number; `None` for any other number.
    pub(crate) fn thread_of(&self, number: &[u8]) -> Option<u16> {
        let number: &[u8; BYTES] = number.try_into().ok()?;
        let (checked, check) = number.split_at(CHECKED);
        if check != self.check(checked) {
            return None;
        }
        let mask = self.mask(number);
        Some(u16::from_be_bytes([number[1], number[2]]) ^ mask)
    }

    /// Changes the number of threads for the numbers that are made from now on.
    pub(crate) fn set_threads(&self, threads: u16) {
        self.threads.store(threads.max(1), Ordering::Relaxed);
    }

    /// Returns the own thread.
    pub(crate) fn thread(&self) -> u16 {
        self.thread
    }

    fn number(&self, random: [u8; CHECKED]) -> [u8; BYTES] {
        let mut number = [0; BYTES];
        number[..CHECKED].copy_from_slice(&random);
        // The largest multiple of the threads below 256 keeps the byte's remainders even.
        let threads = self.threads.load(Ordering::Relaxed).min(256);
        let thread = self.thread % threads;
        let blocks = 256 / threads;
        number[0] = ((u16::from(random[0]) % blocks) * threads + thread) as u8;
        let masked = self.thread ^ self.mask(&number);
        number[1..3].copy_from_slice(&masked.to_be_bytes());
        let check = self.check(&number[..CHECKED]);
        number[CHECKED..].copy_from_slice(&check);
        number
    }

    fn mask(&self, number: &[u8; BYTES]) -> u16 {
        (xxh3_64_with_seed(&number[3..CHECKED], self.key ^ u64::from(number[0])) >> 16) as u16
    }

    fn check(&self, checked: &[u8]) -> [u8; BYTES - CHECKED] {
        ((xxh3_64_with_seed(checked, !self.key) >> 32) as u32).to_be_bytes()
    }
}

/// Returns the number that a packet is addressed to (RFC 8999 section 5); `None` where there is none.
pub(crate) fn of_packet(packet: &[u8]) -> Option<&[u8]> {
    match packet.first()? & 0x80 {
        0 => packet.get(1..1 + BYTES),
        _ => {
            let length = usize::from(*packet.get(5)?);
            packet.get(6..6 + length)
        }
    }
}

impl ConnectionIdGenerator for Numbers {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut random = [0; CHECKED];
        tidegate_rt::random::unpredictable(&mut random);
        ConnectionId::new(&self.number(random))
    }

    fn validate(&self, cid: &ConnectionId) -> Result<(), InvalidCid> {
        self.thread_of(cid).map(drop).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Returns the configuration of an endpoint with such numbers.
pub(crate) fn configuration(
    numbers: &Numbers,
    reset: Arc<dyn quinn_proto::crypto::HmacKey>,
) -> quinn_proto::EndpointConfig {
    let mut config = quinn_proto::EndpointConfig::new(reset);
    let numbers = numbers.clone();
    config.cid_generator(move || Box::new(numbers.clone()));
    config.supported_versions(vec![1]);
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_carry_their_thread(
            key: u64,
            thread in 0u16..300,
            more in 1u16..300,
            random: [u8; CHECKED],
            flip in 0usize..BYTES * 8,
        ) {
            let numbers = Numbers::new(key, thread, thread + more);
            let mut number = numbers.number(random);
            // Any thread reads it, whatever the number of threads is by then.
            let other = Numbers::new(key, 0, 1);
            prop_assert_eq!(other.thread_of(&number), Some(thread));
            if thread + more <= 256 {
                prop_assert_eq!(u16::from(number[0]) % (thread + more), thread);
            }
            prop_assert_eq!(Numbers::new(key ^ 1, 0, 1).thread_of(&number), None);
            number[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(other.thread_of(&number), None);
        }

        #[test]
        fn any_packet_has_a_number_or_none(packet: Vec<u8>) {
            let _ = of_packet(&packet);
        }
    }

    #[test]
    fn the_number_of_a_packet_is_behind_its_header() {
        let number = [7; BYTES];
        let short = [&[0x40][..], &number, &[1, 2, 3]].concat();
        assert_eq!(of_packet(&short), Some(&number[..]));
        let long = [&[0xc0, 0, 0, 0, 1, 3][..], b"abc", &[0, 1, 2]].concat();
        assert_eq!(of_packet(&long), Some(&b"abc"[..]));
        for cut in [&short[..BYTES], &long[..8], &[][..]] {
            assert_eq!(of_packet(cut), None);
        }
    }
}
