//! Members of one name, depth, and the texts of values.

use super::Object;

#[test]
fn names_occur_once_at_every_level() {
    for text in [r#"{"a":1,"a":2}"#, r#"{"b":[{"a":1,"a":1}]}"#, r#"{"\u0061":1,"a":2}"#] {
        let error = Object::parse(text.as_bytes()).expect_err(text);
        assert!(error.contains("two members of one name"), "{error}");
    }
    assert!(Object::parse(br#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
}

#[test]
fn other_texts_are_no_objects() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for text in
        ["", "[]", "\"a\"", "null", "{", "{}x", "{\"a\":1e999}", "{\"a\":\"\\ud800\"}", &deep]
    {
        assert!(Object::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Object::parse(b"{\"a\":\"\xff\"}").is_err());
}

#[test]
fn texts_of_values() {
    let text = br#"{"text":"a\"b","number":12,"part":1.5,"big":18446744073709551615,"yes":true,"no":false,
        "null":null,"array":["a",1,false,null,["x"],{"y":1},"b,c"],"empty":[],"info":{"job title":"captain",
        "deep":{"er":[1,2]}},"":"nameless"}"#;
    let object = Object::parse(text).expect("an object");
    for (path, expected) in [
        (&["text"][..], Some("a\"b")),
        (&["number"], Some("12")),
        (&["part"], Some("1.5")),
        (&["big"], Some("18446744073709551615")),
        (&["yes"], Some("true")),
        (&["no"], Some("false")),
        (&["null"], None),
        (&["array"], Some("a,1,false,b,c")),
        (&["empty"], Some("")),
        (&["info"], None),
        (&["info", "job title"], Some("captain")),
        (&["info", "deep", "er"], Some("1,2")),
        (&["info", "none"], None),
        (&["text", "none"], None),
        (&[""], Some("nameless")),
        (&[], None),
    ] {
        assert_eq!(object.text(path).as_deref(), expected, "{path:?}");
    }
}

#[test]
fn the_case_of_letters_counts_only_between_several() {
    let object =
        Object::parse(br#"{"Sub":"a","one":"b","ONE":"c","tWo":"d","Two":"e"}"#).expect("");
    for (name, expected) in [("sub", Some("a")), ("one", Some("b")), ("two", None), ("three", None)]
    {
        assert_eq!(object.text_without_case(name).as_deref(), expected, "{name}");
    }
}
