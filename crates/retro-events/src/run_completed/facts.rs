//! Deserializes the facts in `data`. Skips the body and the remarks, which are parsed separately, and members
//! that are `null`.

use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use retro_core::json::JsonNode;

/// Members of `data` that are skipped, because they are parsed separately.
const EXCLUDED_MEMBERS: [&str; 3] = ["trajectory", "dataref", "self_feedback"];

/// Deserializer over the facts in a JSON object.
pub(super) struct Facts<'a>(pub(super) JsonNode<'a>);

impl<'de> Deserializer<'de> for Facts<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let members = self.0.members().into_iter().flatten();
        let facts = members.filter(|(name, value)| !EXCLUDED_MEMBERS.contains(&&**name) && !value.is_null());
        visitor.visit_map(MapDeserializer::new(facts))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
