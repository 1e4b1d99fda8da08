//! Defines what a model is asked.

use retro_core::canonical::canonical_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::response::ToolUse;

/// One request to a model. The fields are in the order in which they are sent: what never changes comes first, so that
/// a provider can cache it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Tools that the model may call, sorted by name. The answer is given by calling one of them.
    pub tools: Vec<ToolSpec>,
    /// Name of the tool that the model must call; `None` to leave the choice to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_tool: Option<String>,
    /// Instructions of the program.
    pub system: String,
    /// Conversation so far. The first message and the last one are those of the program.
    pub messages: Vec<ChatMessage>,
    /// Maximum number of tokens of the answer.
    pub output_tokens_max: u32,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// Text of the program.
    User {
        /// The text.
        text: String,
    },
    /// Answer of the model.
    Assistant {
        /// The text; empty if it only calls tools.
        text: String,
        /// Calls of tools, in order.
        calls: Vec<ToolUse>,
    },
    /// Results of the calls of the message before.
    Results {
        /// One result for each call, in order.
        results: Vec<ToolResult>,
    },
}

/// Result of a call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// The result.
    pub text: String,
    /// `true` if the call could not be carried out.
    pub failed: bool,
}

impl ModelRequest {
    /// Returns the SHA-256 of the request to a model of this name, in hexadecimal. Equal requests to the same model
    /// have equal hashes.
    pub fn hash(&self, model: &str) -> String {
        let value = serde_json::to_value(self).expect("a request is plain data");
        let mut digest = Sha256::new();
        digest.update(model.as_bytes());
        // The name of a model has no NUL, so no other pair gives the same bytes.
        digest.update([0]);
        digest.update(canonical_json(&value).as_bytes());
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the number of bytes of the prompt: instructions, tools and conversation.
    pub fn prompt_bytes(&self) -> u64 {
        let tools = self
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len());
        let messages = self.messages.iter().map(|message| match message {
            ChatMessage::User { text } => text.len(),
            ChatMessage::Assistant { text, calls } => {
                text.len() + calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
            ChatMessage::Results { results } => results.iter().map(|one| one.id.len() + one.text.len()).sum(),
        });
        (self.system.len() + tools.sum::<usize>() + messages.sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> ModelRequest {
        ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: "Investigate.".to_owned(),
            messages: vec![ChatMessage::User { text: text.to_owned() }],
            output_tokens_max: 100,
        }
    }

    #[test]
    fn any_difference_in_prompt_or_model_changes_the_hash() {
        let one = request("a").hash("small");
        assert_eq!(one, request("a").hash("small"));
        assert_eq!(one.len(), 64);
        assert_ne!(one, request("b").hash("small"));
        assert_ne!(one, request("a").hash("large"));
        assert_ne!(one, ModelRequest { output_tokens_max: 101, ..request("a") }.hash("small"));
        assert_ne!(one, ModelRequest { forced_tool: Some("x".to_owned()), ..request("a") }.hash("small"));
    }

    #[test]
    fn the_size_of_a_prompt_includes_its_tools() {
        assert_eq!(request("abc").prompt_bytes(), 12 + 3);
        let tool = ToolSpec { name: "x".to_owned(), description: "y".to_owned(), parameters: Value::Null };
        assert_eq!(ModelRequest { tools: vec![tool], ..request("abc") }.prompt_bytes(), 15 + 2 + 4);
    }
}
