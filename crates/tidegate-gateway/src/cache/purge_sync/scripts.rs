//! The commands of shared purges.

use tidegate_rt::random;
use tidegate_store::{Command, Script, write_key};

use super::entry::{EntryId, Position};
use super::follow::{ENTRIES_AT_ONCE, Question};

/// Entries that the engine keeps: a server that was away for more of them makes everything stale.
const ENTRIES_MAX: u64 = 100_000;
/// The longest time for which the engine holds a question for new purges, in milliseconds.
pub(super) const WAIT_MILLIS: u64 = 1000;

/// Returns id and token of the newest entry; a stream without one begins. KEYS: the stream. ARGV: a token.
static JOIN: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if #last == 1 and last[1][2][1] == 'token' then return {last[1][1], last[1][2][2]} end
local id = redis.call('XADD', KEYS[1], '*', 'token', ARGV[1], 'before', '', 'node', '', 'begin', '')
return {id, ARGV[1]}",
);

/// Appends an entry; where ARGV[4] is an id, unless the last entry has the same first field and a higher id. KEYS: the stream.
/// ARGV: a token, the server, the number of entries to keep, an id or nothing, and the fields.
static APPEND: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local before = ''
if #last == 1 and last[1][2][1] == 'token' then
  before = last[1][2][2]
  if ARGV[4] ~= '' and last[1][2][7] == ARGV[5] then
    local millis, number = string.match(last[1][1], '(%d+)-(%d+)')
    local lost_millis, lost_number = string.match(ARGV[4], '(%d+)-(%d+)')
    millis, lost_millis = tonumber(millis), tonumber(lost_millis)
    if millis > lost_millis or (millis == lost_millis and tonumber(number) > tonumber(lost_number)) then
      return last[1][1]
    end
  end
end
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*',
  'token', ARGV[1], 'before', before, 'node', ARGV[2], unpack(ARGV, 5))",
);

/// Returns the id of the oldest entry (empty: there is none), and the entries from an id on. KEYS: the stream. ARGV: the id,
/// and how many.
static VERIFY: Script = Script::new(
    "local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)
if #first == 0 then return {'', {}} end
return {first[1][1], redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])}",
);

/// Returns the name of a cache's stream.
pub(super) fn stream(prefix: &str, cache: &str) -> Vec<u8> {
    let mut name = Vec::new();
    write_key(&mut name, prefix, "p", cache, b"");
    name
}

/// Returns the command that appends an entry of these fields; `node`: the server that has applied it. With `behind` it is
/// appended unless the last entry is the same and has a higher id.
pub(super) fn append(
    stream: &[u8],
    node: &[u8],
    behind: Option<EntryId>,
    fields: &[Vec<u8>],
) -> Command {
    let mut command = Command::script(&APPEND, 1).arg(stream).arg(&token()).arg(node);
    command.push_number(ENTRIES_MAX);
    command.push(behind.map_or(String::new(), |id| id.to_string()).as_bytes());
    fields.iter().for_each(|field| command.push(field));
    command
}

/// Returns the command of a question.
pub(super) fn ask(stream: &[u8], question: &Question) -> Command {
    match question {
        Question::Join => Command::script(&JOIN, 1).arg(stream).arg(&token()),
        Question::Announce(lost) => append(stream, b"", Some(*lost), &super::entry::stale_fields()),
        Question::Verify(at) => {
            let mut command = Command::script(&VERIFY, 1).arg(stream).arg(id(at).as_bytes());
            command.push_number(ENTRIES_AT_ONCE as u64);
            command
        }
        Question::Read(at) => {
            let mut command = Command::new("XREAD").arg(b"COUNT");
            command.push_number(ENTRIES_AT_ONCE as u64);
            command.push(b"BLOCK");
            command.push_number(WAIT_MILLIS);
            command.arg(b"STREAMS").arg(stream).arg(id(at).as_bytes())
        }
    }
}

fn id(at: &Position) -> String {
    at.id.to_string()
}

fn token() -> Vec<u8> {
    format!("{:016x}", random::next_u64()).into_bytes()
}
