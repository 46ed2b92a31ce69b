//! Tests of the command line's options.

use super::*;

fn check(line: &str, expected: Result<Options, &str>) {
    let arguments = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
    let parsed = parse(arguments).map_err(|error| error.to_string());
    assert_eq!(parsed, expected.map_err(str::to_owned), "{line}");
}

#[test]
fn options_as_nginx_takes_them() {
    let none = Options::default();
    check("", Ok(none.clone()));
    check("-t", Ok(Options { test: true, ..none.clone() }));
    check("tune", Ok(Options { tune: true, ..none.clone() }));
    check("-q tune", Ok(Options { tune: true, quiet: true, ..none.clone() }));
    check("-tq", Ok(Options { test: true, quiet: true, ..none.clone() }));
    check("-T", Ok(Options { test: true, dump: true, ..none.clone() }));
    let file = || Some(PathBuf::from("a.conf"));
    check("-tc a.conf", Ok(Options { test: true, file: file(), ..none.clone() }));
    check("-tca.conf", Ok(Options { test: true, file: file(), ..none.clone() }));
    check("-h", Ok(Options { help: true, version: true, ..none.clone() }));
    check("-?", Ok(Options { help: true, version: true, ..none.clone() }));
    check("-V", Ok(Options { version: true, configure: true, ..none.clone() }));
    check("-s reload", Ok(Options { signal: Some(SignalCommand::Reload), ..none.clone() }));
    check("-sstop", Ok(Options { signal: Some(SignalCommand::Stop), ..none.clone() }));
    let all = Options {
        prefix: Some("/p".into()),
        error_log: Some("stderr".into()),
        directives: Some("x;".into()),
        ..none
    };
    check("-p /p -e stderr -g x;", Ok(all));
}

#[test]
fn mistakes_have_nginxs_words() {
    for (line, message) in [
        ("-z", "invalid option: \"z\""),
        ("-tz", "invalid option: \"z\""),
        ("file", "invalid option: \"file\""),
        ("-s jump", "invalid option: \"-s jump\""),
        ("-s", "option \"-s\" requires parameter"),
        ("-c", "option \"-c\" requires file name"),
        ("-p", "option \"-p\" requires directory name"),
        ("-e", "option \"-e\" requires file name"),
        ("-g", "option \"-g\" requires parameter"),
    ] {
        check(line, Err(message));
    }
}
