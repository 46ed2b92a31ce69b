//! Certificates of cases: `{certificate}` and its `{key}`, and `{large-certificate}` of the same key, whose chain is more
//! than a server may send to an address that was not validated.

use std::path::Path;
use std::sync::OnceLock;

use crate::bell::Failure;

/// Names of the large certificate, about 30 bytes each.
const MANY_NAMES: usize = 300;

/// The placeholders and their files.
pub(crate) const FILES: [(&str, &str); 4] = [
    ("certificate", "certificate.pem"),
    ("large-certificate", "large-certificate.pem"),
    ("key", "certificate-key.pem"),
    // For the option `certificate` of a client: with its key.
    ("client-certificate", "client-certificate.pem"),
];

/// Writes the files into the directory of a case.
pub(crate) fn write(directory: &Path) -> Result<(), Failure> {
    static CONTENTS: OnceLock<Result<[String; 4], String>> = OnceLock::new();
    let contents = CONTENTS.get_or_init(|| contents().map_err(|error| error.to_string()));
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("certificates: {error}"));
    let contents = contents.as_ref().map_err(|error| failed(error))?;
    for ((_, file), content) in FILES.iter().zip(contents) {
        std::fs::write(directory.join(file), content).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn contents() -> Result<[String; 4], rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let signed = |names: Vec<String>| {
        let mut params = rcgen::CertificateParams::new(names)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
        Ok::<_, rcgen::Error>(params.self_signed(&key)?.pem())
    };
    let many = (0..MANY_NAMES).map(|number| format!("name-{number}.large.example.test"));
    let certificate = signed(vec!["localhost".to_owned()])?;
    let large = signed(std::iter::once("localhost".to_owned()).chain(many).collect())?;
    let client = certificate.clone() + &key.serialize_pem();
    Ok([certificate, large, key.serialize_pem(), client])
}
