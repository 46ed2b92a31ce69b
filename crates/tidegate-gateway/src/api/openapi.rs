//! The API's description by OpenAPI 3.0, made from the table that routes: `/api/openapi.json`.

use serde_json::{Map, Value, json};
use tidegate_codec::request::Method;

use super::command::{Deletes, SubPath};
use super::objects::Form;
use super::routes::{Content, ROUTES};

/// Its name, in place of a version.
pub(super) const NAME: &str = "openapi.json";

/// Makes the document, with the paths of a version.
pub(super) fn document(version: u32) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let base: String = route.path.iter().map(|part| format!("/{part}")).collect();
        let what = described(&route.path.join(" "));
        for (path, item) in match &route.content {
            Content::Directory => vec![(String::new(), item(&base, &what, DIRECTORY))],
            Content::Object { delete, .. } => {
                vec![(String::new(), item(&base, &what, of(*delete)))]
            }
            Content::Collection { form, delete, .. } => {
                let all = if *form == Form::List { LIST } else { GET };
                let one = format!("{base}/{{name}}");
                let each = item(&one, &format!("One of: {what}"), of(*delete));
                vec![(String::new(), item(&base, &what, all)), ("/{name}".to_owned(), each)]
            }
            Content::Below { paths, .. } => {
                let sub = |sub: &SubPath| {
                    let full = format!("{base}{}", sub.path);
                    (sub.path.to_owned(), item(&full, sub.what, &operations(sub.methods)))
                };
                paths.iter().map(sub).collect()
            }
        } {
            paths.insert(format!("{base}{path}"), item);
        }
    }
    if let Some(root) = paths.remove("") {
        paths.insert("/".to_owned(), root);
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Tidegate API", "version": version.to_string() },
        "servers": [{ "url": format!("./{version}") }],
        "paths": paths,
        "components": { "schemas": { "Error": error_schema() } },
    })
}

/// A method of a path, and the statuses of success with the type of the body; `None` is no body.
type Operation = (Method, &'static [(u16, Option<&'static str>)]);

const GET: &[Operation] = &[(Method::Get, &[(200, Some("object"))])];
const LIST: &[Operation] = &[(Method::Get, &[(200, Some("array"))])];
const DIRECTORY: &[Operation] = LIST;
const RESETS: &[Operation] =
    &[(Method::Get, &[(200, Some("object"))]), (Method::Delete, &[(204, None)])];

fn of(delete: Deletes) -> &'static [Operation] {
    match delete {
        Deletes::Resets => RESETS,
        Deletes::Never => GET,
    }
}

fn operations(methods: &[Method]) -> Vec<Operation> {
    let operation = |method: &Method| -> Operation {
        match method {
            Method::Post => (*method, &[(201, Some("object"))]),
            Method::Patch => (*method, &[(200, Some("object")), (204, None)]),
            Method::Delete => (*method, &[(200, Some("array")), (204, None)]),
            method => (*method, &[(200, None)]),
        }
    };
    methods.iter().map(operation).collect()
}

/// Makes the item of a path with names in braces.
fn item(path: &str, what: &str, operations: &[Operation]) -> Value {
    let mut item = Map::new();
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = names
        .map(|name| {
            let schema = json!({ "type": if name == "id" { "integer" } else { "string" } });
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), parameters.into());
    }
    for (method, statuses) in operations {
        let mut responses = Map::new();
        for (status, body) in *statuses {
            let description = if body.is_some() { what } else { "Done, or as the path says" };
            let mut response = json!({ "description": description });
            if let Some(kind) = body {
                response["content"]["application/json"]["schema"]["type"] = (*kind).into();
            }
            responses.insert(status.to_string(), response);
        }
        let error = json!({ "$ref": "#/components/schemas/Error" });
        let mut response = json!({ "description": "An error" });
        response["content"]["application/json"]["schema"] = error;
        responses.insert("default".to_owned(), response);
        let mut operation = json!({ "summary": what, "responses": responses });
        if matches!(method, Method::Post | Method::Patch) {
            operation["requestBody"] =
                json!({ "content": { "application/json": { "schema": { "type": "object" } } } });
        }
        item.insert(method.name().to_ascii_lowercase(), operation);
    }
    Value::Object(item)
}

/// Returns what is at a path, from its words.
fn described(words: &str) -> String {
    match words {
        "" => "Names of the paths one level below".to_owned(),
        words => words.replace('_', " "),
    }
}

fn error_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": { "status": { "type": "integer" }, "text": text, "code": text },
            },
            "request_id": text,
            "href": text,
        },
    })
}
