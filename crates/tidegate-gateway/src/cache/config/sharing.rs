//! `purge_sync` of a cache as written: purges that several servers share.

use std::time::Duration;

use tidegate_conf::{Args, Diagnostic, parse_milliseconds};

use crate::zone_sync::Sync;

/// What a server that is cut off from the engine does with its cache (`purge_partition`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Serves it.
    #[default]
    Serve,
    /// Makes all objects stale after this time, and again each time it has passed.
    Revalidate(Duration),
}

/// `purge_sync` of a cache as written.
#[derive(Clone, Debug)]
pub struct PurgeSyncConf {
    /// The store.
    pub store: Sync,
    /// `purge_partition`, with `after`.
    pub partition: Partition,
}

/// The parameters of [`read`].
pub(crate) const PURGE_SYNC: [&str; 3] = ["purge_sync", "purge_partition", "after"];
/// How long a server that is cut off serves its cache before it makes objects stale, without `after`.
const PARTITION_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest such time: each of them makes all objects stale.
const PARTITION_MIN: Duration = Duration::from_secs(1);

/// Reads `purge_sync[=STORE] [purge_partition=serve|revalidate [after=TIME]]`.
///
/// # Errors
/// A parameter that is invalid, written twice, or without the one that it belongs to.
pub(crate) fn read(args: &Args<'_>) -> Result<Option<PurgeSyncConf>, Diagnostic> {
    let mut found: [Option<(usize, Option<&str>)>; 3] = [None; 3];
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        let Some(at) = PURGE_SYNC.iter().position(|known| *known == name) else { continue };
        if found[at].replace((index, value)).is_some() {
            return Err(args.error(index, format!("duplicate parameter \"{name}\"")));
        }
    }
    let [sync, partition, after] = found;
    let needs = |index, owner: &str| {
        let error =
            args.error(index, format!("\"{}\" without \"{owner}\"", args.word(index).display()));
        Err(error.label("it has no effect"))
    };
    let revalidates = matches!(partition, Some((_, Some("revalidate"))));
    let after = match after {
        None => PARTITION_DEFAULT,
        Some((index, _)) if !revalidates => return needs(index, "purge_partition=revalidate"),
        Some((index, value)) => {
            let time = value.and_then(|value| parse_milliseconds(value.as_bytes()));
            time.filter(|time| *time >= PARTITION_MIN).ok_or_else(|| {
                let shown = args.word(index).display();
                args.error(index, format!("invalid time \"{shown}\"")).help("it is at least 1s")
            })?
        }
    };
    let partition = match (partition, sync) {
        (Some((index, _)), None) => return needs(index, "purge_sync"),
        (None | Some((_, Some("serve"))), _) => Partition::Serve,
        (Some((_, Some("revalidate"))), _) => Partition::Revalidate(after),
        (Some((index, _)), _) => return Err(args.invalid_parameter(index)),
    };
    let Some((index, store)) = sync else { return Ok(None) };
    if store == Some("") {
        return Err(args.invalid_parameter(index));
    }
    let store = Sync { store: store.map(str::to_owned), span: args.word(index).span };
    Ok(Some(PurgeSyncConf { store, partition }))
}
