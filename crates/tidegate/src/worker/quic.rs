//! QUIC's packets between the threads of this process (`listen … quic`).
//!
//! The kernel passes a packet to the thread of its connection ([`steer`]). Where it cannot, or the number of threads has
//! changed since the connection began, another thread receives the packet and passes it on here.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::client::Address;
use tidegate_core::error_log::Level;
use tidegate_core::plan::Plan;
use tidegate_front::{Packet, Threads};
use tidegate_os::listen::HAS_REUSEPORT;
use tidegate_os::steer;
use tidegate_rt::sync::{Receiver, Sender, channel};

use crate::listening::Listening;

/// Packets of an address that may wait for one thread, most of them of 1,200 to 1,500 bytes. More are dropped, as on the
/// way: their senders repeat them.
const WAITING_MAX: usize = 1024;
/// The most threads that the first byte of a connection's number can tell apart.
const STEERED_MAX: u16 = 256;

/// The mailboxes of all threads, by the listening addresses.
#[derive(Default)]
pub(crate) struct PacketMail {
    addresses: Mutex<HashMap<Address, Arc<AddressMail>>>,
    /// Threads that get new connections.
    count: Arc<AtomicU16>,
}

/// The mailboxes of one address, by the threads' numbers.
#[derive(Default)]
struct AddressMail {
    boxes: Mutex<Vec<(u16, Sender<Packet>)>>,
}

impl PacketMail {
    /// Sets the number of threads that get new connections.
    pub(super) fn set_count(&self, count: usize) {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.count.store(count, Ordering::Relaxed);
    }

    /// Makes the calling thread's part of an address. An older part of the same number gets nothing any more.
    pub(super) fn join(&self, address: &Address, thread: u16) -> Threads {
        let of_address = {
            let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            addresses.entry(address.clone()).or_default().clone()
        };
        let mail = of_address.open(thread);
        Threads {
            thread,
            count: self.count.clone(),
            pass_on: Rc::new(move |thread, packet| of_address.pass_on(thread, packet)),
            mail,
        }
    }
}

impl AddressMail {
    fn open(&self, thread: u16) -> Receiver<Packet> {
        let (sender, mail) = channel(WAITING_MAX);
        let mut boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.retain(|(number, sender)| *number != thread && !sender.is_closed());
        boxes.push((thread, sender));
        mail
    }

    /// Puts a packet into a thread's mailbox. It is dropped where that is full, or the thread has ended.
    fn pass_on(&self, thread: u16, packet: Packet) {
        let boxes = self.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sender)) = boxes.iter().find(|(number, _)| *number == thread) {
            let _ = sender.try_send(packet);
        }
    }
}

/// Returns the number of a new thread at `position` of `wanted`: one that no thread of `used` has, and whose remainder
/// is the position, so that packets of its connections are steered to the socket of the position.
pub(super) fn thread_number(position: usize, wanted: usize, used: &[u16]) -> u16 {
    let steered = wanted.clamp(1, usize::from(STEERED_MAX));
    let numbers = (position..=usize::from(u16::MAX)).step_by(steered);
    let mut numbers = numbers.filter_map(|number| u16::try_from(number).ok());
    numbers.find(|number| !used.contains(number)).unwrap_or_default()
}

/// Makes the kernel pass the packets of QUIC's addresses to the first `wanted` of their sockets.
pub(super) fn steer(plan: &Plan, listening: &[&Listening], wanted: usize) {
    let wanted = u16::try_from(wanted).unwrap_or(u16::MAX).min(STEERED_MAX);
    let Some(wanted) = NonZeroU16::new(wanted).filter(|_| HAS_REUSEPORT) else { return };
    for one in listening.iter().filter(|one| plan.serves_quic(&one.place)) {
        let Some(socket) = one.sockets.first() else { continue };
        if let Err(error) = steer::by_connection_number(socket, wanted) {
            let address = one.place.address.text();
            let message =
                format_args!("packets at {address} are passed on between threads: {error}");
            plan.main.error_log.say(Level::Info, message);
        }
    }
}

#[cfg(test)]
mod tests;
