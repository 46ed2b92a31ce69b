//! A response from an SQLite database, which is created if it is missing.

use std::cell::RefCell;
use std::fmt::Write;

use rusqlite::{Connection, OpenFlags, params};
use tidegate::{Request, Response, Result};

/// Number of towns in a new database.
const TOWNS: u32 = 10_000;

thread_local! {
    /// The thread's connection with the file's name. Threads of a pool live as long as the server.
    static OPEN: RefCell<Option<(String, Connection)>> = const { RefCell::new(None) };
}

/// Responds with the ten smallest towns of more than `?above=N` inhabitants.
pub(crate) fn respond(request: Request) -> Result {
    let file = str::from_utf8(request.variable("example_database").unwrap_or_default())?;
    let above = match request.query_parameter("above") {
        Some(text) => match str::from_utf8(text).unwrap_or_default().parse() {
            Ok(number) => number,
            Err(_) => return Ok(Response::text("above= takes a number\n").status(400)),
        },
        None => 0,
    };
    OPEN.with_borrow_mut(|open| {
        if !matches!(open, Some((name, _)) if name == file) {
            *open = Some((file.to_owned(), connect(file)?));
        }
        let Some((_, connection)) = open else { return Err("no connection".into()) };
        Ok(Response::text(towns(connection, above)?))
    })
}

fn towns(connection: &Connection, above: i64) -> Result<String> {
    let mut statement = connection.prepare_cached(
        "SELECT name, inhabitants FROM town WHERE inhabitants > ?1 ORDER BY inhabitants LIMIT 10",
    )?;
    let mut rows = statement.query(params![above])?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        let (name, inhabitants): (String, i64) = (row.get(0)?, row.get(1)?);
        writeln!(text, "{name}: {inhabitants}")?;
    }
    Ok(text)
}

fn connect(file: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if let Ok(connection) = Connection::open_with_flags(file, flags)
        && connection.table_exists(None, "town")?
    {
        return Ok(connection);
    }
    make(file)?;
    Ok(Connection::open_with_flags(file, flags)?)
}

/// Creates the database, or waits for another thread that creates it at the same time.
fn make(file: &str) -> Result<()> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    let filling = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    if !filling.table_exists(None, "town")? {
        filling.execute_batch(
            "CREATE TABLE town (name TEXT NOT NULL, inhabitants INTEGER NOT NULL);
             CREATE INDEX by_size ON town (inhabitants);",
        )?;
        let mut insert = filling.prepare("INSERT INTO town VALUES (?1, ?2)")?;
        for number in 1..=TOWNS {
            insert
                .execute(params![format!("Town {number}"), i64::from(number) * 7919 % 1_000_003])?;
        }
    }
    filling.commit()?;
    Ok(())
}
