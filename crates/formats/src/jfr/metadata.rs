//! The classes of a chunk: which fields an event or a constant has.

use flamelet_profile::Budget;
use flamelet_profile::budget::{ALLOCATION, hash_entry};
use rustc_hash::FxHashMap as HashMap;

use super::chunk::{Bytes, StringOrNumber};
use super::value::JavaValue;

/// The maximum nesting of structures and of elements.
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
    /// Returns the index of the field called `name`.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// All classes of a chunk.
pub(super) struct Metadata {
    /// Everything that is read is charged to this budget: an object of a class without fields takes no bytes of the
    /// file, and neither do the objects inside it.
    pub(super) budget: Budget,
    classes: HashMap<i64, Class>,
    /// The class of strings, whose constants are stored separately.
    pub(super) string_class: i64,
}

/// An element of the metadata tree.
struct MetadataElement {
    name: usize,
    attributes: Vec<(usize, usize)>,
    children: Vec<MetadataElement>,
}

impl Metadata {
    pub(super) fn parse(event: &[u8], compressed: bool, budget: &Budget) -> Option<Self> {
        let mut bytes = Bytes::new(event, compressed);
        bytes.size()?;
        for _ in 0..4 {
            bytes.long()?; // type, start, duration, number of the metadata
        }
        let count = usize::try_from(bytes.int()?).ok().filter(|&count| count <= bytes.left())?;
        let mut strings = Vec::with_capacity(count);
        for _ in 0..count {
            let StringOrNumber::Text(text) = bytes.string()? else { return None };
            budget.charge(size_of::<String>() + text.len() + ALLOCATION).ok()?;
            strings.push(text.to_string());
        }
        let root = parse_element(&mut bytes, 0, budget)?;
        let mut metadata = Self { budget: budget.clone(), classes: HashMap::default(), string_class: -1 };
        metadata.collect(&root, &strings)?;
        Some(metadata)
    }

    fn collect(&mut self, element: &MetadataElement, strings: &[String]) -> Option<()> {
        for child in &element.children {
            if strings.get(child.name)? == "class" {
                self.add_class(child, strings)?;
            } else {
                self.collect(child, strings)?;
            }
        }
        Some(())
    }

    fn add_class(&mut self, element: &MetadataElement, strings: &[String]) -> Option<()> {
        let id = element.attribute("id", strings)?.parse().ok()?;
        let name = element.attribute("name", strings)?.to_owned();
        let mut fields = Vec::new();
        for child in &element.children {
            if strings.get(child.name)? == "field" {
                let flag = |name| child.attribute(name, strings);
                self.budget.charge(size_of::<Field>() + flag("name")?.len() + ALLOCATION).ok()?;
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
        self.budget.charge(hash_entry(size_of::<(i64, Class)>()) + name.len() + 2 * ALLOCATION).ok()?;
        self.classes.insert(id, Class { name, fields });
        Some(())
    }

    pub(super) fn class(&self, id: i64) -> Option<&Class> {
        self.classes.get(&id)
    }

    /// Reads the fields of an object of `class`.
    pub(super) fn read_fields(
        &self,
        class: &Class,
        bytes: &mut Bytes<'_>,
        depth: u32,
    ) -> Option<Vec<JavaValue>> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.charge_values(class.fields.len())?;
        let mut values = Vec::with_capacity(class.fields.len());
        for field in &class.fields {
            values.push(self.read_field(field, bytes, depth)?);
        }
        Some(values)
    }

    fn charge_values(&self, count: usize) -> Option<()> {
        self.budget.work(count + 1).ok()?;
        self.budget.charge(count * size_of::<JavaValue>() + ALLOCATION).ok()
    }

    fn read_field(&self, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<JavaValue> {
        if !field.is_array {
            return self.read_value(field, bytes, depth);
        }
        let count = usize::try_from(bytes.int()?).ok().filter(|&count| count <= bytes.left())?;
        self.charge_values(count)?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.read_value(field, bytes, depth)?);
        }
        Some(JavaValue::Array(values))
    }

    fn read_value(&self, field: &Field, bytes: &mut Bytes<'_>, depth: u32) -> Option<JavaValue> {
        if field.is_constant {
            return bytes.long().map(|key| JavaValue::Reference(field.class, key));
        }
        self.read_object(field.class, bytes, depth)
    }

    /// Reads an object of the class `id`, which may be a plain number or a string.
    pub(super) fn read_object(&self, id: i64, bytes: &mut Bytes<'_>, depth: u32) -> Option<JavaValue> {
        let class = self.class(id)?;
        Some(match &*class.name {
            "boolean" | "byte" => JavaValue::Number(i64::from(bytes.byte()?)),
            "char" | "short" => JavaValue::Number(bytes.short()?),
            "int" => JavaValue::Number(bytes.int()?),
            "long" => JavaValue::Number(bytes.long()?),
            "float" => {
                bytes.skip(4)?;
                JavaValue::Number(0)
            }
            "double" => {
                bytes.skip(8)?;
                JavaValue::Number(0)
            }
            "java.lang.String" => match bytes.string()? {
                StringOrNumber::Text(text) => {
                    self.budget.charge(text.len() + ALLOCATION).ok()?;
                    JavaValue::Text(text)
                }
                StringOrNumber::Number(key) => JavaValue::Reference(id, key),
            },
            _ => JavaValue::Struct(self.read_fields(class, bytes, depth + 1)?),
        })
    }
}

impl MetadataElement {
    fn attribute<'a>(&self, name: &str, strings: &'a [String]) -> Option<&'a str> {
        let (_, value) =
            self.attributes.iter().find(|(key, _)| strings.get(*key).is_some_and(|key| key == name))?;
        strings.get(*value).map(|text| &**text)
    }
}

fn parse_element(bytes: &mut Bytes<'_>, depth: u32, budget: &Budget) -> Option<MetadataElement> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut index = || usize::try_from(bytes.int()?).ok();
    let name = index()?;
    let count = index()?;
    let mut attributes = Vec::new();
    for _ in 0..count {
        budget.charge(size_of::<(usize, usize)>()).ok()?;
        attributes.push((index()?, index()?));
    }
    let count = index()?;
    let mut children = Vec::new();
    for _ in 0..count {
        budget.charge(size_of::<MetadataElement>() + 2 * ALLOCATION).ok()?;
        children.push(parse_element(bytes, depth + 1, budget)?);
    }
    Some(MetadataElement { name, attributes, children })
}
