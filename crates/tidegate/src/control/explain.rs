//! `explain`: which server and location a request would meet, and what holds there.

use serde_json::Value;

use super::Session;
use super::client::encoded;
use super::failure::Failure;
use super::screen::text;

/// Runs it.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let [url] = session.given.words()[..] else {
        return Err(Failure::Usage("one URL, or one path, is expected".to_owned()));
    };
    let mut path = format!("tidegate/explain?url={}", encoded(url));
    if let Some(field) = session.given.value("header") {
        let host = field.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let Some((_, host)) = host else {
            let text = format!("\"{field}\": only `Host: NAME` has a part in the choice");
            return Err(Failure::Usage(text));
        };
        path.push_str(&format!("&host={}", encoded(host.trim())));
    }
    let found = session.client()?.get(&path)?;
    if session.json() {
        return session.screen.json(&found);
    }
    show(session, &found)
}

fn show(session: &Session, found: &Value) -> Result<(), Failure> {
    let screen = &session.screen;
    let server = &found["server"];
    let name = match text(server, "/name") {
        "" => "a server without a name".to_owned(),
        name => format!("server \"{name}\""),
    };
    let why = match text(server, "/chosen_by") {
        "name" => "its name",
        _ => "it is the default server of the address",
    };
    screen.line(&format!("listen    {}", text(found, "/listen")))?;
    screen.line(&format!("server    {name} ({why}), {}", text(server, "/place")))?;
    let location = &found["location"];
    screen.line(&match location.is_null() {
        true => "location  none: the server's own directives".to_owned(),
        false => format!(
            "location  \"{}\" ({}), {}",
            text(location, "/name"),
            text(location, "/kind"),
            text(location, "/place")
        ),
    })?;
    screen.line(&format!("path      {}", text(found, "/path")))?;
    if let Some(redirect) = found["redirect"].as_str() {
        screen.line(&format!("redirect  {redirect}"))?;
    }
    for topic in ["rewrite", "access", "cache", "handler"] {
        let lines = found["directives"][topic].as_array().into_iter().flatten();
        for line in lines {
            let (text, place) = (text(line, "/text"), text(line, "/place"));
            screen.line(&format!("{topic:<9} {text}  # {place}"))?;
        }
    }
    Ok(())
}
