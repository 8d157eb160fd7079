//! Which tools there are for a client, and calls of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use super::parameters::{self, Arguments};
use super::server::McpServer;
use super::tools::{Needs, TOOLS, Tool};
use crate::error::{Failure, Result};
use crate::note;

impl McpServer {
    fn allows(&self, tool: &Tool) -> Result<()> {
        let missing = match tool.needs {
            Needs::Hosts if !self.reach.has_hosts() => "--host HOST:PORT",
            Needs::Recording if !self.may_record => "--allow-record",
            _ => return Ok(()),
        };
        Err(Failure::new(format!("{} is not allowed; the server's {missing} allows it", tool.name)))
    }

    /// Returns the tools that are allowed, as clients see them.
    pub(super) fn listed_tools(&self) -> Vec<Value> {
        TOOLS.iter().filter(|tool| self.allows(tool).is_ok()).map(Tool::to_json).collect()
    }

    pub(super) fn tool(&self, name: &str) -> Result<&'static Tool> {
        let known = || TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        tool.ok_or_else(|| Failure::new(format!("there is no tool '{name}'; there are {}", known())))
    }

    /// Runs a tool. What the other verbs say on standard error is part of the answer.
    pub(super) fn call(&self, tool: &Tool, arguments: &Value) -> Result<String> {
        self.allows(tool)?;
        let arguments = Arguments::check(arguments, tool.parameters)?;
        let run = || catch_unwind(AssertUnwindSafe(|| (tool.run)(self, &arguments)));
        let (outcome, notes) = note::collect(run);
        let text = outcome.unwrap_or_else(|_| Err(Failure::new("flamelet has a bug: it panicked")))?;
        let notes: String = notes.iter().map(|note| format!("Note: {note}\n")).collect();
        Ok(if notes.is_empty() { text } else { format!("{text}\n{notes}") })
    }
}

impl Tool {
    fn to_json(&self) -> Value {
        let is_reading = self.needs != Needs::Recording;
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": parameters::schema(self.parameters),
            "annotations": { "readOnlyHint": is_reading, "openWorldHint": self.needs != Needs::Nothing },
        })
    }
}
