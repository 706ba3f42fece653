//! Conversion of nodes to typed values with serde. The path and the position of an error are added while it is passed
//! up from a key or value.

use super::de_error::{DeError, ErrorPosition, Kind, missing_key};
use super::error::ConfigError;
use super::nearest::listed;
use super::node::{Node, Value, join, keys};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::marker::PhantomData;
use std::vec;

impl Node {
    /// Reads the typed value at a dotted path (empty path: this node).
    ///
    /// # Errors
    /// Invalid values, with the position of the key or value; a missing path.
    pub fn extract<'de, T: Deserialize<'de>>(&'de self, path: &str) -> Result<T, ConfigError> {
        self.extract_seed(path, PhantomData)
    }

    /// Reads the value at a dotted path (empty path: this node) with a serde seed.
    ///
    /// # Errors
    /// The errors of [`Self::extract`].
    pub fn extract_seed<'de, S>(&'de self, path: &str, seed: S) -> Result<S::Value, ConfigError>
    where
        S: DeserializeSeed<'de>,
    {
        let node = self.get(path).ok_or_else(|| self.missing(path))?;
        seed.deserialize(Typed(node)).map_err(|error| error.at(node, ErrorPosition::Value).into_config(path))
    }

    /// Reads the typed value at a dotted path; a missing path gives the default of the type.
    ///
    /// # Errors
    /// Invalid values.
    pub fn extract_or_default<'de, T>(&'de self, path: &str) -> Result<T, ConfigError>
    where
        T: Deserialize<'de> + Default,
    {
        if self.get(path).is_some() { self.extract(path) } else { Ok(T::default()) }
    }

    /// The error for a missing path, positioned at the longest prefix of the path that exists.
    fn missing(&self, path: &str) -> ConfigError {
        let (mut node, mut at) = (self, String::new());
        for key in keys(path) {
            match node.child(key) {
                Some(child) => (node, at) = (child, join(&at, key)),
                None => return missing_key(node, &at, key),
            }
        }
        missing_key(self, "", path)
    }
}

/// Serde deserializer of a node.
struct Typed<'de>(&'de Node);

/// Largest number up to which a float represents every integer exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

impl<'de> Typed<'de> {
    /// Reads an integer, which may be written as a float: `1e4`.
    fn whole<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0.value {
            Value::Float(x) if x.fract() == 0.0 && x.abs() <= WHOLE_MAX => visitor.visit_i64(x as i64),
            _ => self.deserialize_any(visitor),
        }
    }
}

macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            self.whole(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Typed<'de> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match &self.0.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Integer(n) => visitor.visit_i64(*n),
            Value::Float(x) => visitor.visit_f64(*x),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::Array(elements) => visit_elements(elements, visitor),
            Value::Table(_) => visitor.visit_map(Entries::new(self.0)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match &self.0.value {
            Value::Text(text) => visitor.visit_enum(text.as_ref().into_deserializer()),
            Value::Table(table) if table.len() == 1 => visitor.visit_enum(Tagged(self.0)),
            other => {
                let message = format!("expected one of {}, found {}", listed(known), other.describe());
                Err(DeError::new(Kind::Message(message)))
            }
        }
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    serde::forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn visit_elements<'de, V: Visitor<'de>>(elements: &'de [Node], visitor: V) -> Result<V::Value, DeError> {
    let mut access = Elements { elements, next: 0 };
    let value = visitor.visit_seq(&mut access)?;
    if access.next == elements.len() {
        return Ok(value);
    }
    let (taken, all) = (access.next, elements.len());
    Err(DeError::new(Kind::Message(format!("expected {taken} elements, found {all}"))))
}

struct Elements<'de> {
    elements: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for &mut Elements<'de> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        let Some(node) = self.elements.get(self.next) else { return Ok(None) };
        let value = seed.deserialize(Typed(node));
        let value =
            value.map_err(|error| error.at(node, ErrorPosition::Value).within(self.next.to_string()))?;
        self.next += 1;
        Ok(Some(value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len() - self.next)
    }
}

/// Entries of a table in the order of the text, so that the first error is the topmost one.
struct Entries<'de> {
    rest: vec::IntoIter<(&'de str, &'de Node)>,
    current: Option<(&'de str, &'de Node)>,
}

impl<'de> Entries<'de> {
    fn new(node: &'de Node) -> Self {
        let entries = node.as_table().into_iter().flatten();
        let mut entries: Vec<_> = entries.map(|(key, node)| (key.as_ref(), node)).collect();
        entries.sort_by_key(|(_, node)| node.origin.key.start);
        Self { rest: entries.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        self.current = self.rest.next();
        let Some((key, node)) = self.current else { return Ok(None) };
        let key: StrDeserializer<'_, DeError> = key.into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.at(node, ErrorPosition::Key))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        let Some((key, node)) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(Typed(node)).map_err(|error| error.at(node, ErrorPosition::Value).within(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// An enum variant with content: `{ variant = content }`.
struct Tagged<'de>(&'de Node);

impl<'de> EnumAccess<'de> for Tagged<'de> {
    type Error = DeError;
    type Variant = Content<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Content<'de>), DeError> {
        let mut entries = Entries::new(self.0);
        let variant = entries.next_key_seed(seed)?;
        match (variant, entries.current) {
            (Some(variant), Some((key, content))) => Ok((variant, Content { key, content })),
            _ => Err(de::Error::custom("expected one key")),
        }
    }
}

struct Content<'de> {
    key: &'de str,
    content: &'de Node,
}

impl Content<'_> {
    fn locate<T>(&self, result: Result<T, DeError>) -> Result<T, DeError> {
        result.map_err(|error| error.at(self.content, ErrorPosition::Value).within(self.key))
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        self.locate(Err(de::Error::custom(format_args!("`{}` takes no value", self.key))))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        self.locate(seed.deserialize(Typed(self.content)))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DeError> {
        self.locate(Typed(self.content).deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.locate(Typed(self.content).deserialize_any(visitor))
    }
}
