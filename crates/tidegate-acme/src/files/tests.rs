//! Files: each form is read as it was written, and damaged ones are not.

use std::sync::Arc;

use super::{Change, Failed, Intent, OrderFile, Placed, Registered};
use crate::config::Wanted;
use crate::identifier::Identifier;
use crate::key::{Key, KeyKind};
use crate::time::Time;

fn intent() -> Intent {
    let names = ["a.test", "192.0.2.1"].map(Identifier::parse);
    Intent {
        names: names.into_iter().flatten().collect(),
        key: Arc::new(Key::generate(KeyKind::Ecdsa256).expect("a key")),
        profile: Some("short".to_owned()),
        replaces: None,
        failures: 3,
    }
}

#[test]
fn orders_survive_their_file() {
    let wanted = Wanted::new(&intent().names, KeyKind::Ecdsa256).expect("a wish");
    let files = [
        OrderFile::Intended(intent()),
        OrderFile::Placed(Placed { intent: intent(), url: "https://ca.test/order/1".to_owned() }),
        OrderFile::Failed(Failed { failures: 2, until: Time(7), reason: "no \"\n".to_owned() }),
    ];
    for file in files {
        let change = file.change(&wanted);
        assert!(change.file.ends_with(".order"));
        let contents = change.contents.unwrap_or_default();
        assert_eq!(OrderFile::parse(&contents), Some(file));
        let text = String::from_utf8(contents).expect("a text");
        for length in 0..text.trim_end().len() {
            assert_eq!(OrderFile::parse(&text.as_bytes()[..length]), None, "{length}");
        }
        let newer = text.replace("\"format\": 1", "\"format\": 2");
        assert_eq!(OrderFile::parse(newer.as_bytes()), None);
    }
}

#[test]
fn accounts_survive_their_file() {
    let account = Registered {
        directory: "https://ca.test/dir".to_owned(),
        key: "thumb".to_owned(),
        url: "https://ca.test/account/1".to_owned(),
        orders: None,
        contacts: vec!["mailto:a@b.test".to_owned()],
    };
    let contents = account.change().contents.unwrap_or_default();
    assert_eq!(Registered::parse(&contents), Some(account));
    assert_eq!(Registered::parse(b"{\"format\":1}"), None);
}

#[test]
fn a_log_does_not_show_contents() {
    let change = Change::account_key(&Key::generate(KeyKind::Ecdsa256).expect("a key"));
    let shown = format!("{change:?}");
    assert!(shown.contains("account.key") && !shown.contains("PRIVATE"), "{shown}");
}
