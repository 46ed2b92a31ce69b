//! Caches that directives name as zones of shared memory (`shared:NAME:SIZE`).

use std::any::TypeId;
use std::sync::Arc;

use tidegate_conf::Diagnostic;
use tidegate_plan::PlanBuilder;

/// The zones that were named in this plan: the type of the cache, the name, bytes.
#[derive(Default)]
struct Sizes(Vec<(TypeId, String, u64)>);

/// Returns the cache of a name, which is kept over reloads; `make` makes it of its size in bytes.
///
/// # Errors
/// The name has another size in this plan, in nginx's words.
pub(super) fn cache<T: Send + Sync + 'static>(
    plan: &mut PlanBuilder<'_>,
    name: &str,
    bytes: u64,
    make: fn(u64) -> T,
) -> Result<Arc<T>, Diagnostic> {
    let sizes = &mut plan.shared::<Sizes>().0;
    let cache = TypeId::of::<T>();
    match sizes.iter().find(|(known, other, _)| *known == cache && other == name) {
        None => sizes.push((cache, name.to_owned(), bytes)),
        Some((.., size)) if *size == bytes => {}
        Some((.., size)) => {
            return Err(Diagnostic::emerg(format!(
                "the size {bytes} of shared memory zone \"{name}\" conflicts with already declared \
                 size {size}"
            )));
        }
    }
    let make = || Ok(make(bytes));
    plan.environment.reload_state.get_or_make(&format!("{name}:{bytes}"), make)
}
