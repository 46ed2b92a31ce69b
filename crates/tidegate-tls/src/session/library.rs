//! What the library's connections of both sides have in common.

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ReadEarlyData, UnbufferedStatus};

/// The library's connection of one side.
pub trait Library {
    /// The library's data of this side.
    type Data;
    /// Whether this side's Finished is the last message of a full handshake of TLS 1.2, so that all before it is plain.
    const FINISHES_TLS12: bool;

    /// Processes received bytes up to the next state of the connection.
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Returns what both sides have in common.
    fn common(&self) -> &CommonState;

    /// Passes early data to `take`. A client receives none.
    fn early_data(early: ReadEarlyData<'_, '_, Self::Data>, take: &mut dyn FnMut(&[u8]));
}

impl Library for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    const FINISHES_TLS12: bool = true;

    fn process<'c, 'i>(
        &'c mut self,
        input: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn early_data(
        mut early: ReadEarlyData<'_, '_, ServerConnectionData>,
        take: &mut dyn FnMut(&[u8]),
    ) {
        while let Some(Ok(record)) = early.next_record() {
            take(record.payload);
        }
    }
}

impl Library for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    const FINISHES_TLS12: bool = false;

    fn process<'c, 'i>(
        &'c mut self,
        input: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn early_data(_: ReadEarlyData<'_, '_, ClientConnectionData>, _: &mut dyn FnMut(&[u8])) {}
}
