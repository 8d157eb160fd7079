//! The classes of a chunk: which fields an event or a constant has.

use rustc_hash::FxHashMap as HashMap;

use super::chunk::{Bytes, StringOrNumber};
use super::values::Value;

/// Structures inside structures, and elements inside elements, go no deeper.
const MAX_DEPTH: u32 = 32;

/// A field of a class.
#[derive(Debug)]
pub(super) struct Field {
    name: String,
    pub(super) class: i64,
    is_constant: bool,
    is_array: bool,
}

/// A class of events, constants or structures.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

impl Class {
    /// The place of the field called `name`.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// All classes of a chunk.
pub(super) struct Metadata {
    classes: HashMap<i64, Class>,
    /// The class of strings, whose constants stand apart.
    pub(super) string_class: i64,
}

/// An element of the tree that the metadata are.
struct Element {
    name: usize,
    attributes: Vec<(usize, usize)>,
    children: Vec<Element>,
}

impl Metadata {
    pub(super) fn parse(event: &[u8], compressed: bool) -> Option<Self> {
        let mut bytes = Bytes::new(event, compressed);
        bytes.size()?;
        for _ in 0..4 {
            bytes.long()?; // type, start, duration, number of the metadata
        }
        let count = usize::try_from(bytes.int()?).ok().filter(|&count| count <= bytes.left())?;
        let mut strings = Vec::with_capacity(count);
        for _ in 0..count {
            strings.push(match bytes.string()? {
                StringOrNumber::Text(text) => text.to_string(),
                StringOrNumber::Number(_) => return None,
            });
        }
        let root = parse_element(&mut bytes, 0)?;
        let mut metadata = Self { classes: HashMap::default(), string_class: -1 };
        metadata.collect(&root, &strings)?;
        Some(metadata)
    }

    fn collect(&mut self, element: &Element, strings: &[String]) -> Option<()> {
        for child in &element.children {
            if strings.get(child.name)? == "class" {
                self.add_class(child, strings)?;
            } else {
                self.collect(child, strings)?;
            }
        }
        Some(())
    }

    fn add_class(&mut self, element: &Element, strings: &[String]) -> Option<()> {
        let id = element.attribute("id", strings)?.parse().ok()?;
        let name = element.attribute("name", strings)?.to_owned();
        let mut fields = Vec::new();
        for child in &element.children {
            if strings.get(child.name)? == "field" {
                let flag = |name| child.attribute(name, strings);
                fields.push(Field {
                    name: flag("name")?.to_owned(),
                    class: flag("class")?.parse().ok()?,
                    is_constant: flag("constantPool") == Some("true"),
                    is_array: flag("dimension").is_some_and(|dimension| dimension != "0"),
                });
            }
        }
        if name == "java.lang.String" {
            self.string_class = id;
        }
        self.classes.insert(id, Class { name, fields });
        Some(())
    }

    pub(super) fn class(&self, id: i64) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// Reads the fields of an object of `class`.
    pub(super) fn read_fields(&self, class: &Class, bytes: &mut Bytes<'_>, depth: u32) -> Option<Vec<Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        class.fields.iter().map(|field| self.read_field(field, bytes, depth)).collect()
    }

    fn read_field(&self, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<Value> {
        if !field.is_array {
            return self.read_value(field, bytes, depth);
        }
        let count = usize::try_from(bytes.int()?).ok().filter(|&count| count <= bytes.left())?;
        (0..count).map(|_| self.read_value(field, bytes, depth)).collect::<Option<Vec<_>>>().map(Value::Array)
    }

    fn read_value(&self, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<Value> {
        if field.is_constant {
            return bytes.long().map(|key| Value::Reference(field.class, key));
        }
        self.read_object(field.class, bytes, depth)
    }

    /// Reads an object of the class `id`, which may be a plain number or a string.
    pub(super) fn read_object(&self, id: i64, bytes: &mut Bytes<'_>, depth: u32) -> Option<Value> {
        let class = self.class(id)?;
        Some(match &*class.name {
            "boolean" | "byte" => Value::Number(i64::from(bytes.byte()?)),
            "char" | "short" => Value::Number(bytes.short()?),
            "int" => Value::Number(bytes.int()?),
            "long" => Value::Number(bytes.long()?),
            "float" => {
                bytes.skip(4)?;
                Value::Number(0)
            }
            "double" => {
                bytes.skip(8)?;
                Value::Number(0)
            }
            "java.lang.String" => match bytes.string()? {
                StringOrNumber::Text(text) => Value::Text(text),
                StringOrNumber::Number(key) => Value::Reference(id, key),
            },
            _ => Value::Struct(self.read_fields(class, bytes, depth + 1)?),
        })
    }
}

impl Element {
    fn attribute<'a>(&self, name: &str, strings: &'a [String]) -> Option<&'a str> {
        let (_, value) =
            self.attributes.iter().find(|(key, _)| strings.get(*key).is_some_and(|key| key == name))?;
        strings.get(*value).map(|text| &**text)
    }
}

fn parse_element(bytes: &mut Bytes<'_>, depth: u32) -> Option<Element> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut index = || usize::try_from(bytes.int()?).ok();
    let name = index()?;
    let count = index()?;
    let mut attributes = Vec::new();
    for _ in 0..count {
        attributes.push((index()?, index()?));
    }
    let count = index()?;
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(parse_element(bytes, depth + 1)?);
    }
    Some(Element { name, attributes, children })
}
