//! Lines of SSLKEYLOGFILE.

use std::sync::Mutex;

use rustls::KeyLog as _;

use super::*;

#[test]
fn a_secret_is_a_line() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let taken = lines.clone();
    let log = KeyLog::new("a", move |line| taken.lock().expect("lines").extend_from_slice(line));
    log.log("CLIENT_RANDOM", &[0, 1, 0xfe], &[0xab]);
    log.log("EXPORTER_SECRET", &[2], &[]);
    let lines = lines.lock().expect("lines");
    let text = String::from_utf8_lossy(&lines);
    assert_eq!(text, "CLIENT_RANDOM 0001fe ab\nEXPORTER_SECRET 02 \n");
    assert_eq!(format!("{log:?}"), "KeyLog(\"a\")");
}
