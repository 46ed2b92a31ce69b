//! The name servers of a case, `{n1}`. The name in a question says how to respond, with a label for each family:
//! `a-here.aaaa-fail.test` has the IPv4 address 127.0.0.1, and the question for IPv6 addresses fails. The response
//! for a name with the label `held-GATE` is sent once that gate is open.

use crate::bell::locked;
use crate::origin::Shared;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const A: [u8; 2] = [0, 1];
const AAAA: [u8; 2] = [0, 28];
const CNAME: [u8; 2] = [0, 5];

/// The target of every alias.
const ALIAS: &[u8] = b"\x06a-here\x04test\0";

/// A DNS response that waits for its gate.
struct Held {
    gate: String,
    answer: Vec<u8>,
    to: SocketAddr,
}

/// Responds on the socket until the case is over, and counts the questions.
pub(crate) fn serve(socket: UdpSocket, shared: Arc<Shared>) -> Arc<AtomicI64> {
    let questions = Arc::new(AtomicI64::new(0));
    let count = Arc::clone(&questions);
    // The timeout ends the thread of a case that is over, and finds open gates.
    let _ = socket.set_read_timeout(Some(Duration::from_millis(50)));
    std::thread::spawn(move || {
        let mut question = [0; 512];
        let mut held: Vec<Held> = Vec::new();
        while !shared.over.load(Ordering::SeqCst) {
            if let Ok((length, to)) = socket.recv_from(&mut question)
                && let Some(answer) = answer(&question[..length])
            {
                count.fetch_add(1, Ordering::SeqCst);
                shared.bell.ring();
                let gate = gate(&question[..length]).unwrap_or_default();
                held.push(Held { gate, answer, to });
            }
            held.retain(|held| {
                let is_open = held.gate.is_empty() || locked(&shared.gates).contains(&held.gate);
                if is_open {
                    let _ = socket.send_to(&held.answer, held.to);
                }
                !is_open
            });
        }
    });
    questions
}

/// Returns the gate in a question's name.
fn gate(question: &[u8]) -> Option<String> {
    let at = question.windows(5).position(|window| window == b"held-")?;
    let length = usize::from(*question.get(at.checked_sub(1)?)?);
    let label = question.get(at + 5..at + length)?;
    Some(String::from_utf8_lossy(label).into_owned())
}

/// Returns the response to a question for addresses (RFC 1035 section 4.1), `None` for other questions.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*question.get(at)?);
        labels.push(question.get(at + 1..=at + length)?);
        at += 1 + length;
        if length == 0 {
            break;
        }
    }
    let kind = [*question.get(at)?, *question.get(at + 1)?];
    let (prefix, here) = match kind {
        A => (&b"a-"[..], Ipv4Addr::LOCALHOST.octets().to_vec()),
        AAAA => (&b"aaaa-"[..], Ipv6Addr::LOCALHOST.octets().to_vec()),
        _ => return None,
    };
    let said = labels.iter().find_map(|label| label.strip_prefix(prefix)).unwrap_or_default();
    let (code, record) = match said {
        b"here" => (0, Some((kind, here))),
        b"alias" => (0, Some((CNAME, ALIAS.to_vec()))),
        b"fail" => (2, None),
        b"none" => (3, None),
        _ => (0, None),
    };
    let mut bytes = question.get(..at + 4)?.to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    bytes[6..12].copy_from_slice(&[0, u8::from(record.is_some()), 0, 0, 0, 0]);
    if let Some((kind, data)) = record {
        // The name of the question; the class; a minute.
        bytes.extend_from_slice(&[0xc0, 12, kind[0], kind[1], 0, 1, 0, 0, 0, 60]);
        bytes.extend_from_slice(&[0, data.len() as u8]);
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}
