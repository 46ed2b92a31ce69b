//! Which pairs are kept, and for how long.

use super::KnownPairs;
use crate::key_pair::KeyPair;
use crate::pem;

#[test]
fn pairs_are_kept_as_long_as_generations_use_them() {
    let (certificate, key) = crate::pair_files::tests::own("a");
    let chain = pem::certificates(certificate.as_bytes()).expect("a certificate");
    let key = pem::private_key(key.as_bytes(), &[]).expect("a key");
    let pair = KeyPair::new(chain, &key).expect("a pair");
    let known = KnownPairs::default();
    let (used, unused) = ([1; 32], [2; 32]);
    assert!(known.find(&used, 1).is_none());
    known.keep(used, pair.clone(), 1);
    known.keep(unused, pair, 1);
    for generation in 1..4 {
        assert!(known.find(&used, generation).is_some());
    }
    assert!(known.find(&unused, 3).is_none());
    assert!(known.find(&used, 5).is_none(), "generation 4 has not used it");
}
