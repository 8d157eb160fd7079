//! A value of an event or of a constant.

use std::rc::Rc;

/// A value of a field.
#[derive(Debug, Clone)]
pub(super) enum JavaValue {
    Number(i64),
    Text(Rc<str>),
    Struct(Vec<JavaValue>),
    Array(Vec<JavaValue>),
    /// A reference to a constant: its class and its number.
    Reference(i64, i64),
}

impl JavaValue {
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            JavaValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn reference(&self) -> Option<(i64, i64)> {
        match self {
            JavaValue::Reference(class, key) => Some((*class, *key)),
            _ => None,
        }
    }
}
