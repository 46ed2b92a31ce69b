//! What clients decompress.

use std::io::Read;

use super::*;

fn compressed(compressor: &dyn CertCompressor, input: &[u8]) -> Vec<u8> {
    compressor.compress(input.to_vec(), CompressionLevel::Amortized).expect("compressed")
}

#[test]
fn results_are_smaller_and_restore_the_certificate() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names: Vec<_> = (0..20).map(|number| format!("name{number}.example")).collect();
    let params = rcgen::CertificateParams::new(names).expect("names");
    let der = params.self_signed(&key).expect("signed").der().to_vec();
    let restored = |compressor: &dyn CertCompressor| {
        let bytes = compressed(compressor, &der);
        assert!(bytes.len() < der.len(), "{compressor:?}: {} of {}", bytes.len(), der.len());
        let mut restored = Vec::new();
        match compressor.algorithm() {
            Algorithm::Brotli => {
                brotlic::DecompressorReader::new(&bytes[..]).read_to_end(&mut restored)
            }
            Algorithm::Zstd => zstd::stream::read::Decoder::new(&bytes[..])
                .and_then(|mut decoder| decoder.read_to_end(&mut restored)),
            _ => flate2::read::ZlibDecoder::new(&bytes[..]).read_to_end(&mut restored),
        }
        .expect("decompressed");
        restored
    };
    for compressor in COMPRESSORS {
        assert_eq!(restored(compressor), der, "{compressor:?}");
    }
    // Nothing to gain: the certificate is sent as it is.
    assert!(Brotli.compress(vec![7], CompressionLevel::Amortized).is_err());
}
