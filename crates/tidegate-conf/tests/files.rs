//! Reading files: the file system with patterns, bundles, and the output of `-T`.

use std::path::{Path, PathBuf};

use tidegate_conf::{
    Bundle, BundleError, BundleLoader, FsLoader, Loader, Parser, RecordingLoader, dump,
    print_statements,
};

/// Makes a directory with files, which is removed at the end.
fn directory(names: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("file {name};\n")).unwrap();
    }
    directory
}

#[test]
fn globs() {
    let names =
        ["a.conf", "b.conf", "Z.conf", ".hidden.conf", "sub/c.conf", "sub2/c.conf", "x*y", "[q"];
    let directory = directory(&names);
    let table: &[(&str, &[&str])] = &[
        ("*.conf", &["Z.conf", "a.conf", "b.conf"]),
        ("?.conf", &["Z.conf", "a.conf", "b.conf"]),
        ("[a-b].conf", &["a.conf", "b.conf"]),
        ("[!a-b].conf", &["Z.conf"]),
        ("[^a]*.conf", &["Z.conf", "b.conf"]),
        (".*.conf", &[".hidden.conf"]),
        ("*/c.conf", &["sub/c.conf", "sub2/c.conf"]),
        ("sub*/*.con[f]", &["sub/c.conf", "sub2/c.conf"]),
        ("su?/*", &["sub/c.conf"]),
        ("x\\*y", &["x*y"]),
        ("[q*", &["[q"]),
        ("none/*", &[]),
        ("a.conf/*", &[]),
        ("*a*.*o*f", &["a.conf"]),
    ];
    for (pattern, expected) in table {
        let whole = format!("{}/{pattern}", directory.path().display());
        let found = FsLoader.glob(&whole).unwrap();
        let expected: Vec<PathBuf> =
            expected.iter().map(|name| directory.path().join(name)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn a_recorded_configuration_reads_the_same() {
    let directory = directory(&["conf.d/b.conf", "conf.d/a.conf", "one.conf"]);
    let main = directory.path().join("nginx.conf");
    std::fs::write(&main, "include conf.d/*.conf;\ninclude one.conf; include one.conf;").unwrap();
    let recorder = RecordingLoader::new(FsLoader);
    let mut parser = Parser::new(&recorder, directory.path());
    let first = parser.parse_file(&main);
    let (sources, diagnostics) = parser.finish();
    assert!(diagnostics.is_empty());
    assert_eq!(
        String::from_utf8(print_statements(&first)).unwrap(),
        "file conf.d/a.conf;\nfile conf.d/b.conf;\nfile one.conf;\nfile one.conf;\n"
    );
    let prefix = format!("{}/", directory.path().display());
    assert_eq!(
        String::from_utf8(dump(&sources)).unwrap().replace(&prefix, "/c/"),
        "# configuration file /c/nginx.conf:\n\
         include conf.d/*.conf;\ninclude one.conf; include one.conf;\n\
         # configuration file /c/conf.d/a.conf:\nfile conf.d/a.conf;\n\n\
         # configuration file /c/conf.d/b.conf:\nfile conf.d/b.conf;\n\n\
         # configuration file /c/one.conf:\nfile one.conf;\n\n"
    );

    let bundle = recorder.into_bundle();
    assert_eq!((bundle.files.len(), bundle.globs.len()), (4, 1));
    let again = Bundle::from_bytes(&bundle.to_bytes()).unwrap();
    assert_eq!(again, bundle);
    // The files are not needed any more.
    drop(directory);
    let loader = BundleLoader::new(again);
    let mut parser = Parser::new(&loader, main.parent().unwrap());
    assert_eq!(parser.parse_file(&main), first);
    assert!(parser.diagnostics().is_empty());
}

#[test]
fn a_directory_is_no_file() {
    let directory = directory(&["sub/a"]);
    let mut parser = Parser::new(&FsLoader, directory.path());
    parser.parse_file(&directory.path().join("sub"));
    let expected =
        format!("pread() \"{}/sub\" failed (21: Is a directory)", directory.path().display());
    assert_eq!(parser.diagnostics()[0].message, expected);
}

#[test]
fn foreign_bytes_are_no_bundle() {
    let bundle = Bundle {
        files: vec![("/a".into(), b"text"[..].into()), (Path::new("").into(), [].into())],
        globs: vec![("/*".into(), vec!["/a".into()]), ("/b*".into(), Vec::new())],
    };
    let bytes = bundle.to_bytes();
    assert_eq!(Bundle::from_bytes(&bytes), Ok(bundle));
    assert_eq!(Bundle::from_bytes(b""), Err(BundleError::Foreign));
    for length in 16..bytes.len() {
        assert_eq!(Bundle::from_bytes(&bytes[..length]), Err(BundleError::Length), "{length}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert_eq!(Bundle::from_bytes(&longer), Err(BundleError::Length));
}
