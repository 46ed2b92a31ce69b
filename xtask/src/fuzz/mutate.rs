//! Small changes to an input, drawn from a seeded sequence: the same seed, the same inputs.

/// Inputs longer than this are truncated: defects of parsers show on short ones.
pub(super) const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Largest number of changes to one input.
const CHANGES_MAX: usize = 6;

/// Bytes with a meaning in the parsed formats.
const MEANINGFUL_BYTES: &[u8] = b"\0\t\n\r \"#$%&'()*+,-./09:;<=>?@AZ[\\]^_az{|}~\x7f\x80\xff";

/// Decimal numbers at the edges of integer types.
const TELLING_NUMBERS: &[&str] = &[
    "0",
    "-1",
    "00",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "ffffffffffffffff",
    "10000000000000000",
];

/// SplitMix64: well mixed from any seed, and six lines long.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 when `limit` is 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        if limit == 0 { 0 } else { (self.next() % limit) as usize }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Changes `input` in one to six places. `other` is a second seed to splice from.
pub(super) fn mutate(
    input: &mut Vec<u8>,
    other: &[u8],
    dictionary: &[Vec<u8>],
    random: &mut Random,
) {
    for _ in 0..=random.below(CHANGES_MAX) {
        change(input, other, dictionary, random);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change(input: &mut Vec<u8>, other: &[u8], dictionary: &[Vec<u8>], random: &mut Random) {
    match random.below(10) {
        0 => flip_bit(input, random),
        1 => {
            let at = random.below(input.len());
            if let (Some(byte), Some(telling)) = (input.get_mut(at), random.pick(MEANINGFUL_BYTES))
            {
                *byte = *telling;
            }
        }
        2 => {
            let byte = random.pick(MEANINGFUL_BYTES).copied().unwrap_or(0);
            insert(input, &[byte], random);
        }
        3 => remove(input, random),
        4 => {
            let part = part_of(input, random).to_vec();
            insert(input, &part, random);
        }
        5 => {
            let part = part_of(other, random).to_vec();
            insert(input, &part, random);
        }
        6 => {
            let keep = random.below(input.len() + 1);
            input.truncate(keep);
        }
        7 => replace_number(input, random),
        8 => {
            let part = part_of(input, random).to_vec();
            let times = random.below(64);
            insert(input, &part.repeat(times), random);
        }
        _ => {
            let word = random.pick(dictionary).map_or(&b""[..], |word| word);
            insert(input, word, random);
        }
    }
}

fn flip_bit(input: &mut [u8], random: &mut Random) {
    let at = random.below(input.len());
    let bit = random.below(8);
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

fn insert(input: &mut Vec<u8>, part: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, part.iter().copied());
}

fn remove(input: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(input.len());
    let length = random.below((input.len() - from).min(32) + 1);
    input.drain(from..from + length);
}

fn part_of<'a>(from: &'a [u8], random: &mut Random) -> &'a [u8] {
    let start = random.below(from.len());
    let length = random.below((from.len() - start).min(64) + 1);
    &from[start..start + length]
}

/// Replaces digits of the input by an edge number.
fn replace_number(input: &mut Vec<u8>, random: &mut Random) {
    let starts: Vec<usize> = (0..input.len())
        .filter(|&at| input[at].is_ascii_digit() && (at == 0 || !input[at - 1].is_ascii_digit()))
        .collect();
    let (Some(&start), Some(number)) = (random.pick(&starts), random.pick(TELLING_NUMBERS)) else {
        return;
    };
    let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    input.splice(start..start + digits, number.bytes());
}
