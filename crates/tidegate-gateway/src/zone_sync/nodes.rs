//! The servers that share a store: each one renews its entry while it runs, and counts those of the others.

use tidegate_store::{Command, Script, Value};

use super::LEASE;

/// Writes the entry of a server, removes those that have ended, and returns their number.
/// The engine's clock counts, so that those of the servers need not agree.
static RENEW: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])",
);

/// The most servers that are believed: a record that others have written may say anything.
const NODES_MAX: i64 = 10_000;

pub(super) fn renew(prefix: &str, node: &str) -> Command {
    let key = format!("{prefix}nodes");
    let mut command = Command::script(&RENEW, 1).arg(key.as_bytes()).arg(node.as_bytes());
    command.push_number(LEASE.as_millis() as u64);
    command
}

/// Returns the number of servers that a reply says.
pub(super) fn count(reply: &Value) -> u32 {
    reply.as_integer().unwrap_or(1).clamp(1, NODES_MAX) as u32
}
