//! What the master reads, and what it hands over.

use super::*;

#[test]
fn a_file_is_read_once() {
    let folder = std::env::temp_dir().join(format!("tidegate-resources-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("key.pem");
    std::fs::write(&file, "before").expect("a file");
    let logs = LogFiles::default();
    let opened = Opened::new(&logs);
    assert_eq!(opened.read(&file).expect("its content"), b"before");
    std::fs::write(&file, "after").expect("a change");
    assert_eq!(opened.read(&file).expect("what is known"), b"before");
    assert!(opened.read(&folder.join("absent.pem")).is_err());
    let (_, contents, _) = opened.into_parts();
    assert_eq!(contents, [(file, b"before".to_vec())]);
    let _ = std::fs::remove_dir_all(folder);
}
