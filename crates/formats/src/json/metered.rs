//! Parsing that charges a budget for what it keeps: the size of its type for an element of a list, and its length for
//! a text. Each list in `[[],[],[]]` takes three bytes in the file and 24 in memory; a struct takes far more.

use std::fmt;

use flamelet_profile::Budget;
use flamelet_profile::budget::ALLOCATION;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

/// How many elements a list initially has room for.
const FIRST_ELEMENTS: usize = 4;
/// How many entries a map initially has room for.
const FIRST_ENTRIES: usize = 11;

/// A serde object that charges `budget`.
pub(super) struct Metered<'b, T> {
    pub(super) inner: T,
    pub(super) budget: &'b Budget,
}

impl<'b, T> Metered<'b, T> {
    fn charge<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.budget.charge(bytes).map_err(E::custom)
    }

    fn with<U>(&self, inner: U) -> Metered<'b, U> {
        Metered { inner, budget: self.budget }
    }
}

macro_rules! deserialize {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<V: Visitor<'de>>(self, $($argument: $kind,)* visitor: V) -> Result<V::Value, Self::Error> {
            let visitor = Metered { inner: visitor, budget: self.budget };
            self.inner.$name($($argument,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metered<'_, D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let visitor = StructVisitor(Metered { inner: visitor, budget: self.budget });
        self.inner.deserialize_struct(name, fields, visitor)
    }

    // Nothing of these is kept.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_identifier(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }
}

macro_rules! visit {
    ($($name:ident($kind:ty);)*) => {
        $(fn $name<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.inner.$name(value)
        })*
    };
}

macro_rules! visit_text {
    ($($name:ident($kind:ty);)*) => {
        $(fn $name<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.charge(value.len() + ALLOCATION)?;
            self.inner.$name(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Metered<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_char(char);
    }

    visit_text! {
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let from = self.with(from);
        self.inner.visit_some(from)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        let from = self.with(from);
        self.inner.visit_newtype_struct(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        let items = self.with(Items { items, count: 0 });
        self.inner.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let entries = self.with(Entries { entries, count: 0, are_kept: true });
        self.inner.visit_map(entries)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(variant)
    }
}

/// The visitor of a struct, whose fields are charged as part of the struct.
struct StructVisitor<'b, V>(Metered<'b, V>);

impl<'de, V: Visitor<'de>> Visitor<'de> for StructVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.inner.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let entries = self.0.with(Entries { entries, count: 0, are_kept: false });
        self.0.inner.visit_map(entries)
    }
}

struct Items<A> {
    items: A,
    count: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Metered<'_, Items<A>> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let seed = self.with(seed);
        let element = self.inner.items.next_element_seed(seed)?;
        if element.is_some() {
            let size = size_of::<T::Value>();
            self.inner.count += 1;
            match self.inner.count {
                1 => self.charge(size * FIRST_ELEMENTS + ALLOCATION)?,
                2..=FIRST_ELEMENTS => {}
                _ => self.charge(size)?,
            }
        }
        Ok(element)
    }
}

struct Entries<A> {
    entries: A,
    count: usize,
    are_kept: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Metered<'_, Entries<A>> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let seed = self.with(seed);
        self.inner.entries.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        if self.inner.are_kept {
            // Keys are text. The nodes of maps are half full.
            let entry = size_of::<T::Value>() + size_of::<String>();
            self.inner.count += 1;
            match self.inner.count {
                1 => self.charge(entry * FIRST_ENTRIES + ALLOCATION)?,
                2..=FIRST_ENTRIES => {}
                _ => self.charge(2 * entry)?,
            }
        }
        let seed = self.with(seed);
        self.inner.entries.next_value_seed(seed)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metered<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        let from = self.with(from);
        self.inner.deserialize(from)
    }
}
