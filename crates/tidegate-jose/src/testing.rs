//! Keys and tokens for tests, made by another implementation (jwcrypto 1.5 over OpenSSL).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::KeySet;

/// Returns the file of vectors: `keys`, `claims`, `signed` by algorithm, `encrypted` as triples of both algorithms and
/// the token, `nested`.
pub(crate) fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).expect("the vectors")
}

/// Returns the set of all keys of the vectors, each changed by `change`.
pub(crate) fn keys(change: impl Fn(&mut Value)) -> [Arc<KeySet>; 1] {
    let mut keys = vectors()["keys"].clone();
    keys.as_array_mut().expect("an array").iter_mut().for_each(change);
    set(&json!({ "keys": keys }))
}

/// Returns the set of this text, all of whose keys are usable.
pub(crate) fn set(set: &Value) -> [Arc<KeySet>; 1] {
    let set = KeySet::parse(set.to_string().as_bytes()).expect("a key set");
    assert_eq!(set.unusable(), []);
    [Arc::new(set)]
}
