//! A document's values → types, by serde.

use std::borrow::Cow;

use serde::de::value::{Error, MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::document::{Kind, Node};

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.kind() {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool => visitor.visit_bool(self.as_bool() == Some(true)),
            Kind::Number => {
                let number = self.as_number().expect("it is a number");
                match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(number), ..) => visitor.visit_u64(number),
                    (_, Some(number), _) => visitor.visit_i64(number),
                    (.., number) => visitor.visit_f64(number.expect("a number is a double, or more exact")),
                }
            }
            Kind::String => match self.as_str().expect("it is a string") {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Kind::Array => visitor.visit_seq(Items(self.items().expect("it is an array"))),
            Kind::Object => visitor.visit_map(members(self)),
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
            Kind::String => visitor.visit_enum(self.as_str().expect("it is a string").into_deserializer()),
            Kind::Object => visitor.visit_enum(MapAccessDeserializer::new(members(self))),
            _ => self.deserialize_any(visitor),
        }
    }

    // What nobody asked for is passed over in one step.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items<I>(I);

impl<'de, I: Iterator<Item = Node<'de>>> SeqAccess<'de> for Items<I> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

struct Members<'de, I> {
    rest: I,
    value: Option<Node<'de>>,
}

fn members<'de>(object: Node<'de>) -> Members<'de, impl Iterator<Item = (Cow<'de, str>, Node<'de>)>> {
    Members { rest: object.members().expect("it is an object"), value: None }
}

impl<'de, I: Iterator<Item = (Cow<'de, str>, Node<'de>)>> MapAccess<'de> for Members<'de, I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let key: StrDeserializer<'_, Error> = (*key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().expect("a value is asked for after its key"))
    }
}
