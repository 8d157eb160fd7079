//! The parameters of tools: their JSON schema, and arguments that are checked against it.

use flamelet_report::ReportOption;
use serde_json::{Map, Value, json};

use crate::error::{Failure, Result};

pub(super) struct Parameter {
    name: &'static str,
    kind: ParameterKind,
    is_required: bool,
    /// What it is; empty for an option of reports, whose table says it.
    help: &'static str,
}

enum ParameterKind {
    Text,
    Choice(&'static [&'static str]),
    Switch,
    /// A whole number from 1 up to this.
    Count(u64),
    Texts,
}

impl Parameter {
    pub(super) const fn text(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: ParameterKind::Text, is_required: false, help }
    }

    /// An option of reports, by its name in their table.
    pub(super) const fn option(name: &'static str) -> Self {
        Self::text(name, "")
    }

    pub(super) const fn choice(
        name: &'static str,
        choices: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: ParameterKind::Choice(choices), is_required: false, help }
    }

    pub(super) const fn switch(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: ParameterKind::Switch, is_required: false, help }
    }

    pub(super) const fn count(name: &'static str, most: u64, help: &'static str) -> Self {
        Self { name, kind: ParameterKind::Count(most), is_required: false, help }
    }

    pub(super) const fn texts(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: ParameterKind::Texts, is_required: false, help }
    }

    pub(super) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ParameterKind::Text => json!({ "type": "string" }),
            ParameterKind::Choice(choices) => json!({ "type": "string", "enum": choices }),
            ParameterKind::Switch => json!({ "type": "boolean" }),
            ParameterKind::Count(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
            ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        };
        let own = || ReportOption::named(self.name).map_or("", |option| option.help);
        schema["description"] = json!(if self.help.is_empty() { own() } else { self.help });
        schema
    }

    /// Returns what is wrong with a value, as "must be …".
    fn fault(&self, value: &Value) -> Option<String> {
        let is_text = |value: &Value| value.is_string();
        let (is_right, wanted) = match self.kind {
            ParameterKind::Text => (is_text(value), "a string".to_owned()),
            ParameterKind::Choice(choices) => {
                (choices.iter().any(|choice| value == choice), format!("one of {}", choices.join(", ")))
            }
            ParameterKind::Switch => (value.is_boolean(), "true or false".to_owned()),
            ParameterKind::Count(most) => {
                let is_within = value.as_u64().is_some_and(|count| (1..=most).contains(&count));
                (is_within, format!("a whole number from 1 to {most}"))
            }
            ParameterKind::Texts => {
                let are_texts = value.as_array().is_some_and(|values| values.iter().all(is_text));
                (are_texts, "a list of strings".to_owned())
            }
        };
        (!is_right).then_some(wanted)
    }
}

/// Returns the JSON schema of a tool's arguments.
pub(super) fn schema(parameters: &[&[Parameter]]) -> Value {
    let all = || parameters.iter().copied().flatten();
    let properties: Map<String, Value> =
        all().map(|parameter| (parameter.name.to_owned(), parameter.schema())).collect();
    let required: Vec<&str> = all().filter(|parameter| parameter.is_required).map(|p| p.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Arguments that fit a tool's parameters.
#[derive(Debug)]
pub(super) struct Arguments<'a>(Option<&'a Map<String, Value>>);

impl<'a> Arguments<'a> {
    /// Checks `values`, which may be missing if nothing is required.
    pub(super) fn check(values: &'a Value, parameters: &[&[Parameter]]) -> Result<Self> {
        let all = || parameters.iter().copied().flatten();
        let values = match values {
            Value::Null => None,
            Value::Object(values) => Some(values),
            _ => return Err(Failure::new("the arguments must be an object")),
        };
        for (name, value) in values.into_iter().flatten() {
            let Some(parameter) = all().find(|parameter| parameter.name == name) else {
                let known: Vec<&str> = all().map(|parameter| parameter.name).collect();
                return Err(Failure::new(format!(
                    "there is no parameter '{name}'; the tool takes {}",
                    known.join(", ")
                )));
            };
            if let Some(wanted) = parameter.fault(value) {
                return Err(Failure::new(format!("{name}: must be {wanted}")));
            }
        }
        let is_given = |name: &str| values.is_some_and(|values| values.contains_key(name));
        match all().find(|parameter| parameter.is_required && !is_given(parameter.name)) {
            Some(missing) => Err(Failure::new(format!("'{}' is missing", missing.name))),
            None => Ok(Self(values)),
        }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name)
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.value(name)?.as_str()
    }

    /// Returns a parameter that is required, and so is there.
    pub(super) fn needed(&self, name: &str) -> &'a str {
        self.text(name).unwrap_or_default()
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value == true)
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_u64()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let values = self.value(name).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&[Parameter]] = &[
        &[Parameter::text("profile", "a file").required(), Parameter::option("focus")],
        &[
            Parameter::count("rows", 100, "how many"),
            Parameter::choice("by", &["crate", "line"], "grouping"),
            Parameter::switch("cum", "with what they call"),
            Parameter::texts("mine", "yours"),
        ],
    ];

    #[test]
    fn right_arguments_are_taken() {
        let given = json!({ "profile": "a", "rows": 7, "by": "line", "cum": true, "mine": ["x", "y"] });
        let arguments = Arguments::check(&given, ALL).expect("they fit");
        assert_eq!((arguments.needed("profile"), arguments.count("rows")), ("a", Some(7)));
        assert_eq!((arguments.text("by"), arguments.switch("cum")), (Some("line"), true));
        assert_eq!((arguments.texts("mine"), arguments.text("focus")), (vec!["x".into(), "y".into()], None));
    }

    #[test]
    fn wrong_arguments_are_refused_in_one_line() {
        for (given, message) in [
            (json!({}), "'profile' is missing"),
            (json!(null), "'profile' is missing"),
            (json!([1]), "the arguments must be an object"),
            (json!({ "profile": 7 }), "profile: must be a string"),
            (json!({ "profile": "a", "rows": 0 }), "rows: must be a whole number from 1 to 100"),
            (json!({ "profile": "a", "rows": 1.5 }), "rows: must be a whole number from 1 to 100"),
            (json!({ "profile": "a", "rows": 101 }), "rows: must be a whole number from 1 to 100"),
            (json!({ "profile": "a", "by": "file" }), "by: must be one of crate, line"),
            (json!({ "profile": "a", "cum": "yes" }), "cum: must be true or false"),
            (json!({ "profile": "a", "mine": ["x", 1] }), "mine: must be a list of strings"),
            (
                json!({ "profile": "a", "row": 1 }),
                "there is no parameter 'row'; the tool takes profile, focus, rows, by, cum, mine",
            ),
        ] {
            let failure = Arguments::check(&given, ALL).expect_err(message);
            assert_eq!(failure.to_string(), message);
        }
    }

    #[test]
    fn the_schema_says_the_same() {
        let schema = schema(ALL);
        assert_eq!(schema["required"], json!(["profile"]));
        assert_eq!(schema["properties"]["rows"]["maximum"], 100);
        assert_eq!(schema["properties"]["by"]["enum"], json!(["crate", "line"]));
        assert_eq!(schema["properties"]["focus"]["description"], "Keep samples with a matching frame");
        assert_eq!(schema["additionalProperties"], false);
    }
}
