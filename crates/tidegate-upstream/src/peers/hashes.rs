//! Hashes of keys as nginx and its clients compute them: other servers and libraries choose the same.

/// Points on the ring for each unit of weight, as in Cache::Memcached::Fast.
const POINTS_PER_WEIGHT: u32 = 160;

/// The running value of a hash over a key; `u32` is the number of the attempt.
pub(super) type KeyHash = fn(&[u8], &mut u32, u32) -> u32;

/// Computes `ip_hash`: a polynomial over the address's bytes, continued for each attempt.
pub(super) fn ip_hash(key: &[u8], running: &mut u32, _attempt: u32) -> u32 {
    if *running == 0 {
        *running = 89;
    }
    for byte in key {
        *running = (*running * 113 + u32::from(*byte)) % 6271;
    }
    *running
}

/// Computes `hash`: 15 bits of CRC-32 as in Cache::Memcached, summed over the attempts.
pub(super) fn key_hash(key: &[u8], running: &mut u32, attempt: u32) -> u32 {
    let mut text = Vec::with_capacity(key.len() + 4);
    if attempt > 0 {
        text.extend_from_slice(attempt.to_string().as_bytes());
    }
    text.extend_from_slice(key);
    *running = running.wrapping_add((crc32(&text) >> 16) & 0x7fff);
    *running
}

/// Returns the points of servers: their names hashed in a chain, 160 for each unit of weight.
pub(super) fn ring<'a>(servers: impl Iterator<Item = (usize, &'a str, u32)>) -> Box<[(u32, u32)]> {
    let mut points = Vec::new();
    for (index, name, weight) in servers {
        // A name without a port, and an address of IPv6 without one, is hashed as it is written.
        let (host, port) = match (name.strip_prefix("unix:"), name.rsplit_once(':')) {
            (Some(path), _) => (path, ""),
            (None, Some((host, port))) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (host, port)
            }
            (None, _) => (name, ""),
        };
        let mut base = host.as_bytes().to_vec();
        base.push(0);
        base.extend_from_slice(port.as_bytes());
        let base = crc32_of(u32::MAX, &base);
        let mut previous: u32 = 0;
        for _ in 0..weight.saturating_mul(POINTS_PER_WEIGHT) {
            previous = !crc32_of(base, &previous.to_le_bytes());
            points.push((previous, index as u32));
        }
    }
    points.sort_unstable();
    points.dedup_by_key(|(point, _)| *point);
    points.into()
}

/// Computes CRC-32 (IEEE 802.3).
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !crc32_of(u32::MAX, bytes)
}

fn crc32_of(value: u32, bytes: &[u8]) -> u32 {
    let step = |value: u32, byte: &u8| (value >> 8) ^ TABLE[usize::from(value as u8 ^ byte)];
    bytes.iter().fold(value, step)
}

/// Eight steps for each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};
