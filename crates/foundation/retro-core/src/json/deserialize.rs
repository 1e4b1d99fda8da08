//! Deserializes the values of a JSON document into Rust types with serde.

use std::borrow::Cow;

use serde::de::value::{Error, MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::document::{JsonKind, JsonNode};

impl<'de> Deserializer<'de> for JsonNode<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind() {
            JsonKind::Null => visitor.visit_unit(),
            JsonKind::Bool => visitor.visit_bool(self.as_bool() == Some(true)),
            JsonKind::Number => {
                let number = self.as_number().expect("the kind is Number");
                match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(number), ..) => visitor.visit_u64(number),
                    (_, Some(number), _) => visitor.visit_i64(number),
                    (.., number) => visitor.visit_f64(number.expect("a number is a double, or more exact")),
                }
            }
            JsonKind::String => match self.as_str().expect("the kind is String") {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            JsonKind::Array => visitor.visit_seq(ArrayReader(self.items().expect("the kind is Array"))),
            JsonKind::Object => visitor.visit_map(object_reader(self)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.kind() {
            JsonKind::String => {
                visitor.visit_enum(self.as_str().expect("the kind is String").into_deserializer())
            }
            JsonKind::Object => visitor.visit_enum(MapAccessDeserializer::new(object_reader(self))),
            _ => self.deserialize_any(visitor),
        }
    }

    // Skips an unused value in one step, however large it is.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for JsonNode<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct ArrayReader<I>(I);

impl<'de, I: Iterator<Item = JsonNode<'de>>> SeqAccess<'de> for ArrayReader<I> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

struct ObjectReader<'de, I> {
    members: I,
    value: Option<JsonNode<'de>>,
}

fn object_reader<'de>(
    object: JsonNode<'de>,
) -> ObjectReader<'de, impl Iterator<Item = (Cow<'de, str>, JsonNode<'de>)>> {
    ObjectReader { members: object.members().expect("the kind is Object"), value: None }
}

impl<'de, I: Iterator<Item = (Cow<'de, str>, JsonNode<'de>)>> MapAccess<'de> for ObjectReader<'de, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.members.next() else { return Ok(None) };
        self.value = Some(value);
        let key: StrDeserializer<'_, Error> = (*key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().expect("serde requests a value after its key"))
    }
}
