//! Fail-over: the engine is killed, and its replica takes over as a Sentinel says.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::faults::{in_use, row, settle};
use super::purges::{rejoin, stale_on, times};
use super::{Bed, limits};

const SENTINEL: &str = "10.99.0.10:26379";
/// The port of the replica.
const REPLICA: &str = "6381";
/// The longest wait for the Sentinel.
const PATIENCE: Duration = Duration::from_secs(30);
/// Objects that are purged meanwhile.
const OBJECTS: usize = 30;

pub(super) fn rows(bed: &mut Bed, seconds: u64) -> Result<(), String> {
    bed.fault(&["sentinel"])?;
    settle(bed)?;
    let targets: Vec<String> = (0..OBJECTS).map(|number| format!("/over/{number}")).collect();
    for target in &targets {
        for node in &mut bed.nodes {
            node.get(target)?;
        }
    }
    let (mut admitted, mut without) = ((0, 0), Duration::ZERO);
    row(bed, "engine killed, fail-over", 3, |bed| {
        let happens = || {
            bed.fault(&["kill"])?;
            let killed = Instant::now();
            for (by, target) in targets.iter().enumerate() {
                bed.origin.change(target);
                // 503: it is sent later.
                bed.nodes[by % bed.nodes.len()].again().ask("PURGE", target)?;
            }
            taken_over()?;
            without = killed.elapsed();
            in_use(bed)
        };
        let (back, found) = limits::during(bed, "/limited?k=over", seconds, happens)?;
        admitted = found;
        Ok(back)
    })?;
    bed.row("  the fail-over itself", &format!("{} ms", without.as_millis()), "", true);
    limits::row(bed, "  admitted in 10 s", admitted);
    rejoin(bed)?;
    let mut stale = 0;
    for target in &targets {
        stale += stale_on(bed, target)?;
    }
    let found = format!("{stale} stale of {}", OBJECTS * bed.nodes.len());
    bed.row("  purges without an engine", &found, "0 stale", stale == 0);
    times(bed, "purge by another engine")
}

/// Waits until the Sentinel names the replica.
fn taken_over() -> Result<(), String> {
    let (begun, mut buffer) = (Instant::now(), [0; 256]);
    let mut ask = || {
        let mut stream = TcpStream::connect(SENTINEL)?;
        stream.write_all(b"SENTINEL get-master-addr-by-name main\r\n")?;
        let length = stream.read(&mut buffer)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&buffer[..length]).contains(REPLICA))
    };
    while !ask().map_err(|error| format!("{SENTINEL}: {error}"))? {
        if begun.elapsed() > PATIENCE {
            return Err("the replica does not take over".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
