//! Discovery: a double of Consul with ten thousand servers of a group, of which one serves. The time from a change in the double
//! to the first request that the new server gets, on the last of the three nodes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::origin::Origin;
use super::{Bed, ORIGIN};

/// Where the double listens, and the second origin.
const CONSUL: &str = "10.99.0.12:9001";
const OTHER: &str = "10.99.0.12:9002";
const SERVERS: usize = 10_000;
const CHANGES: usize = 40;
const GOAL: Duration = Duration::from_millis(100);
/// The longest wait for a change, and for a question that is held.
const PATIENCE: Duration = Duration::from_secs(30);

/// The double.
struct Consul {
    /// Its index, and which origin serves.
    state: Mutex<(u64, usize)>,
    changed: Condvar,
    /// The responses: what it takes to make them is not measured.
    bodies: [String; 2],
}

/// Measures the time from a change to traffic.
pub(super) fn times(bed: &mut Bed) -> Result<(), String> {
    let other = Origin::start(OTHER).map_err(|error| format!("{OTHER}: {error}"))?;
    // Both have the target; its version says which one responds.
    other.change("/service");
    let (state, changed) = (Mutex::new((1, 0)), Condvar::new());
    let consul = Arc::new(Consul { state, changed, bodies: [0, 1].map(body) });
    consul.start().map_err(|error| format!("{CONSUL}: {error}"))?;
    for node in &mut bed.nodes {
        node.until("/service", "0")?;
    }
    let mut times = Vec::new();
    for number in 1..=CHANGES {
        let serving = number % 2;
        let begun = Instant::now();
        consul.change(serving);
        for node in &mut bed.nodes {
            while node.get("/service")?.body != serving.to_string().into_bytes() {
                if begun.elapsed() > PATIENCE {
                    return Err("a change has not arrived".to_owned());
                }
            }
        }
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let (middle, last) = (times[CHANGES / 2], times[CHANGES - 1]);
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let found = format!("{:.1} / {:.1} ms", millis(middle), millis(last));
    bed.row("10,000 servers, change to traffic", &found, "longest 100 ms", last <= GOAL);
    Ok(())
}

impl Consul {
    fn start(self: &Arc<Consul>) -> std::io::Result<()> {
        let (consul, listener) = (self.clone(), TcpListener::bind(CONSUL)?);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let consul = consul.clone();
                // A connection that fails is made again by its server.
                std::thread::spawn(move || while let Ok(()) = consul.serve(&stream) {});
            }
        });
        Ok(())
    }

    /// Changes which origin serves.
    fn change(&self, serving: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = (state.0 + 1, serving);
        self.changed.notify_all();
    }

    /// Responses a question, held until there is something new.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let known = line.split("index=").nth(1).and_then(|rest| rest.split(['&', ' ']).next());
        let known: u64 = known.and_then(|index| index.parse().ok()).unwrap_or(0);
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.changed.wait_timeout_while(state, PATIENCE, |state| state.0 <= known);
        let (index, serving) = *waiting.unwrap_or_else(PoisonError::into_inner).0;
        let body = &self.bodies[serving];
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Consul-Index: {index}\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = stream;
        stream.write_all((head + body).as_bytes())
    }
}

/// Returns all servers; those that do not serve are `down`.
fn body(serving: usize) -> String {
    // `{"down":1}` in base64.
    const DOWN: &str = "eyJkb3duIjoxfQ==";
    let one = [ORIGIN, OTHER][serving];
    let mut body = format!("[{{\"Key\":\"services/{one}\",\"Value\":null}}");
    for number in 1..SERVERS {
        let (high, low) = (number / 250, number % 250 + 1);
        let _ =
            write!(body, ",{{\"Key\":\"services/10.98.{high}.{low}:80\",\"Value\":\"{DOWN}\"}}");
    }
    body.push(']');
    body
}
