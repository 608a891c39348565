//! JSON Schemas of what `--json` prints (packaging/schemas): derived from real output, and checked against it.
//!
//! The subset of JSON Schema is `type`, `properties`, `required`, `items` and `additionalProperties` with a schema.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// Objects whose keys are names and not fields, by the key that holds them.
const MAPS: [&str; 10] = [
    "by_reason",
    "calls",
    "counts",
    "facts",
    "files",
    "processes",
    "processes_by_pid",
    "seen",
    "settings",
    "transactions",
];

/// The end of a problem with a field that the schema does not have.
const NEW: &str = ", which the schema lacks";

pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../packaging/schemas/{name}.schema.json"))
}

/// The schema that describes one value.
fn of(key: &str, value: &Value) -> Value {
    match value {
        Value::Null => json!({"type": "null"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(number) if number.is_f64() => json!({"type": "number"}),
        Value::Number(_) => json!({"type": "integer"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(values) => {
            match values.iter().map(|value| of("", value)).reduce(|a, b| merged(&a, &b)) {
                Some(items) => json!({"type": "array", "items": items}),
                None => json!({"type": "array"}),
            }
        }
        Value::Object(fields) if MAPS.contains(&key) => {
            let each = fields.iter().map(|(_, value)| of("", value)).reduce(|a, b| merged(&a, &b));
            let mut schema = json!({"type": "object"});
            if let Some(each) = each {
                schema["additionalProperties"] = each;
            }
            schema
        }
        Value::Object(fields) => {
            let properties: Map<String, Value> =
                fields.iter().map(|(key, value)| (key.clone(), of(key, value))).collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({"type": "object", "properties": properties, "required": required})
        }
    }
}

fn types(schema: &Value) -> Vec<String> {
    match &schema["type"] {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The schema that describes what either describes.
fn merged(a: &Value, b: &Value) -> Value {
    let mut names = [types(a), types(b)].concat();
    names.sort();
    names.dedup();
    if names.iter().any(|name| name == "number") {
        names.retain(|name| name != "integer");
    }
    let mut schema = json!({"type": if names.len() == 1 { json!(names[0]) } else { json!(names) }});
    for key in ["items", "additionalProperties"] {
        match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) => schema[key] = merged(a, b),
            (Some(one), None) | (None, Some(one)) => schema[key] = one.clone(),
            (None, None) => {}
        }
    }
    let empty = Map::new();
    let properties = |of: &Value| of["properties"].as_object().unwrap_or(&empty).clone();
    let (mut of_a, of_b) = (properties(a), properties(b));
    for (key, value) in of_b {
        let value = of_a.get(&key).map_or(value.clone(), |known| merged(known, &value));
        of_a.insert(key, value);
    }
    if !of_a.is_empty() {
        schema["properties"] = Value::Object(of_a);
    }
    let required = |of: &Value| of.get("required").and_then(Value::as_array).cloned();
    match (required(a), required(b)) {
        (Some(a), Some(b)) => {
            schema["required"] = a.into_iter().filter(|key| b.contains(key)).collect::<Vec<_>>().into();
        }
        (Some(one), None) | (None, Some(one)) => schema["required"] = one.into(),
        (None, None) => {}
    }
    schema
}

/// The parts of a schema that have no type: fields that are null, and arrays and maps that are empty, in every sample.
pub fn untyped(schema: &Value, at: &str) -> Vec<String> {
    let names = types(schema);
    let has = |name: &str| names.iter().any(|known| known == name);
    let mut found = Vec::new();
    if !names.iter().any(|name| name != "null") {
        found.push(format!("{at}: no type but null"));
    }
    if has("array") && schema.get("items").is_none() {
        found.push(format!("{at}: an array without the type of its elements"));
    }
    let has_fields = schema["properties"].as_object().is_some_and(|fields| !fields.is_empty());
    if has("object") && !has_fields && schema.get("additionalProperties").is_none() {
        found.push(format!("{at}: an object without fields"));
    }
    for (key, part) in schema["properties"].as_object().into_iter().flatten() {
        found.extend(untyped(part, &format!("{at}.{key}")));
    }
    for (key, sign) in [("items", "[]"), ("additionalProperties", ".*")] {
        found.extend(schema.get(key).iter().flat_map(|part| untyped(part, &format!("{at}{sign}"))));
    }
    found
}

/// A sample with other values at these JSON pointers (RFC 6901): what a test run does not produce, but another output has.
#[allow(dead_code, reason = "used by some of the programs")]
pub fn with(sample: &Value, values: &[(&str, Value)]) -> Value {
    let mut other = sample.clone();
    for (pointer, value) in values {
        let place = other.pointer_mut(pointer);
        *place.unwrap_or_else(|| panic!("no {pointer} in {sample}")) = value.clone();
    }
    other
}

/// The identifier of the schema of an output.
fn id(name: &str, sample: &Value) -> String {
    format!("dwell:{name}:{}", sample["schema_version"])
}

/// The schema of all samples.
pub fn derived(name: &str, about: &str, samples: &[Value]) -> Value {
    let body = samples.iter().map(|sample| of("", sample)).reduce(|a, b| merged(&a, &b)).unwrap_or_default();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id(name, &samples[0]),
        "title": name,
        "description": format!("{about}. Later versions may add fields; a change of a field's meaning increases schema_version."),
    });
    for (key, value) in body.as_object().into_iter().flatten() {
        schema[key] = value.clone();
    }
    schema
}

/// What of a value its schema does not describe.
pub fn problems(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = types(schema);
    let fits = allowed.iter().any(|known| known == name || (known == "number" && name == "integer"));
    if !fits {
        return vec![format!("{at}: is {name}, expected {allowed:?}")];
    }
    let mut found = Vec::new();
    match value {
        Value::Array(values) => {
            let items = schema.get("items");
            for (index, value) in values.iter().enumerate() {
                match items {
                    Some(items) => found.extend(problems(items, value, &format!("{at}[{index}]"))),
                    None => found.push(format!("{at}: has elements, expected none")),
                }
            }
        }
        Value::Object(fields) => {
            for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(key) {
                    found.push(format!("{at}: lacks '{key}'"));
                }
            }
            for (key, value) in fields {
                let known = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                match known {
                    Some(known) => found.extend(problems(known, value, &format!("{at}.{key}"))),
                    None => found.push(format!("{at}: has '{key}'{NEW}")),
                }
            }
        }
        _ => {}
    }
    found
}

/// Checks samples against the committed schema; with `DWELL_BLESS`, writes the schema anew.
pub fn check(name: &str, about: &str, samples: &[Value]) {
    let path = file(name);
    if std::env::var_os("DWELL_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&derived(name, about, samples)).expect("JSON");
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text + "\n").expect("the schema is written");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let untyped = untyped(&schema, name);
    assert!(
        untyped.is_empty(),
        "{}: add a sample with values, then DWELL_BLESS=1:\n{}",
        path.display(),
        untyped.join("\n")
    );
    for sample in samples {
        assert_eq!(schema["$id"], id(name, sample), "the version of the output");
        let (new, found): (Vec<String>, Vec<String>) =
            problems(&schema, sample, name).into_iter().partition(|problem| problem.ends_with(NEW));
        // A schema permits further fields.
        new.iter().for_each(|problem| eprintln!("{problem}; DWELL_BLESS=1 adds it"));
        assert!(
            found.is_empty(),
            "{}: the output differs from its schema; if that is intended, write it anew with DWELL_BLESS=1:\n{}",
            path.display(),
            found.join("\n")
        );
    }
}
