//! What outlives a plan, and what does not.

use std::convert::Infallible;
use std::sync::Arc;

use super::ReloadState;

/// Returns the object of a name, made of this number where there is none.
fn object(state: &ReloadState, name: &str, number: u32) -> Arc<u32> {
    match state.get_or_make(name, || Ok::<_, Infallible>(number)) {
        Ok(object) => object,
    }
}

#[test]
fn objects_of_a_plan_that_has_failed_are_made_anew() {
    let state = ReloadState::default();
    assert_eq!(*object(&state, "kept", 1), 1);
    state.keep_made();
    assert_eq!((*object(&state, "kept", 2), *object(&state, "new", 2)), (1, 2));
    state.forget_made();
    assert_eq!((*object(&state, "kept", 3), *object(&state, "new", 3)), (1, 3));
    state.keep_made();
    state.forget_made();
    assert_eq!((*object(&state, "kept", 4), *object(&state, "new", 4)), (1, 3));
}

#[test]
fn adopted_objects_are_in_use() {
    let (state, other) = (ReloadState::default(), ReloadState::default());
    assert_eq!(
        (*object(&state, "a", 1), *object(&other, "a", 2), *object(&other, "b", 2)),
        (1, 2, 2)
    );
    state.adopt(&other);
    state.forget_made();
    assert_eq!((*object(&state, "a", 3), *object(&state, "b", 3)), (1, 2));
}
