//! Contents of bodies: bytes that depend on the object and on the offset in it, so that a
//! check detects holes, shifts, repetitions and parts of other objects.

/// The body of the object that `target` names, `bytes` long.
pub(crate) fn body(target: &[u8], bytes: u64) -> Vec<u8> {
    // FNV-1a: any hash that distinguishes the targets is sufficient.
    let seed = target.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let words = (0..bytes.div_ceil(8)).map(|index| mix(seed.wrapping_add(index)).to_le_bytes());
    let mut body: Vec<u8> = words.flatten().collect();
    body.truncate(length);
    body
}

/// The finalizer of SplitMix64: neighbouring numbers give unrelated ones.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
