//! Compression of the server's certificates in handshakes of TLS 1.3 (RFC 8879).
//!
//! The library keeps compressed certificates, so that each is compressed once for each algorithm that clients offer.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;

use brotlic::{CompressionMode, Quality, WindowSize};
use rustls::compress::{CertCompressor, CompressionCache, CompressionFailed, CompressionLevel};
use rustls::{CertificateCompressionAlgorithm as Algorithm, ServerConfig};

/// The algorithms, that of the smallest result first. A client gets the first that it offers.
const COMPRESSORS: [&dyn CertCompressor; 3] = [&Brotli, &Zstd, &Zlib];
/// Compressed certificates that settings keep, at most; of several algorithms, and of several OCSP responses in turn.
const CACHED_MAX: usize = 64;
/// 0.4 ms for a chain of 2 KB, in which an event loop waits; level 11 takes 20 ms and gains nothing.
const BROTLI_QUALITY: u8 = 9;
/// Binary logarithm of the window: 64 KB holds a chain, and larger ones take longer to clear.
const BROTLI_WINDOW_BITS: u8 = 16;
/// The level of the library's authors.
const ZSTD_LEVEL: i32 = 3;

/// Makes handshakes of a configuration compress certificates.
pub(crate) fn compress(config: &mut ServerConfig) {
    config.cert_compressors = COMPRESSORS.to_vec();
    config.cert_compression_cache = Arc::new(CompressionCache::new(CACHED_MAX));
}

#[derive(Debug)]
struct Brotli;

#[derive(Debug)]
struct Zstd;

#[derive(Debug)]
struct Zlib;

impl CertCompressor for Brotli {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let quality = Quality::new(BROTLI_QUALITY).map_err(|_| CompressionFailed)?;
        let window = WindowSize::new(BROTLI_WINDOW_BITS).map_err(|_| CompressionFailed)?;
        // Where there is no room the certificate is not smaller, and is sent as it is.
        let mut output = vec![0; input.len()];
        let mode = CompressionMode::Generic;
        let length = brotlic::compress(&input, &mut output, quality, window, mode);
        output.truncate(length.map_err(|_| CompressionFailed)?);
        Ok(output)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Brotli
    }
}

impl CertCompressor for Zstd {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        zstd::bulk::compress(&input, ZSTD_LEVEL).map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Zstd
    }
}

impl CertCompressor for Zlib {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let output = Vec::with_capacity(input.len());
        let mut encoder = flate2::write::ZlibEncoder::new(output, flate2::Compression::best());
        encoder.write_all(&input).map_err(|_| CompressionFailed)?;
        encoder.finish().map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Zlib
    }
}
