//! Collections as lines of JSON. docs/moving.md has the form.
//!
//! Each line is an object with one member, which names its kind: `root` begins a collection, `entry` is one of its
//! entries, `end` says how many these are, `total` how many collections; it is the last line.
//!
//! An item is an array: its words as numbers (those from 2^53 on as strings of digits, since many programs keep numbers
//! as doubles), then its byte string, as text if it is in UTF-8, else as `{"base64": ".."}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use perdura::collections::form::Form as ItemForm;
use perdura::collections::untyped::{Description, Element, Items};
use serde::{Deserialize, Serialize};

/// The least number that a double may not have.
const INEXACT: u64 = 1 << 53;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// A collection begins.
    Root(RootLine),
    /// One of its entries.
    Entry(EntryLine),
    /// It ends.
    End {
        /// How many entries it has.
        entries: u64,
    },
    /// Nothing follows.
    Total {
        /// How many collections there are.
        roots: u64,
    },
}

/// The line that begins a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootLine {
    /// The root's name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The form of a map's keys.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<FormOfItem>,
    /// The form of a map's values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<FormOfItem>,
    /// Whether a map counts its entries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<bool>,
    /// Bytes of a vector's elements.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pitch: Option<u64>,
    /// The hash of the types' names, by which programs open it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub types: Option<u32>,
}

/// A collection's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A byte string.
    Blob,
    /// A hash map.
    HashMap,
    /// An ordered map.
    OrderedMap,
    /// A vector.
    Vector,
}

/// An item's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormOfItem {
    /// Words in all.
    pub words: usize,
    /// Words at the end that are a byte string; 0 if none is.
    pub string: usize,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryLine {
    /// The key; none in byte strings and vectors.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub key: Vec<Part>,
    /// The value.
    pub value: Vec<Part>,
}

/// A word, or a byte string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Part {
    /// A word below 2^53.
    Number(u64),
    /// A larger one, in digits; or a byte string in UTF-8.
    Text(String),
    /// A byte string.
    Bytes {
        /// In base64, with padding.
        base64: String,
    },
}

impl From<ItemForm> for FormOfItem {
    fn from(form: ItemForm) -> Self {
        FormOfItem { words: form.words, string: form.string }
    }
}

impl From<FormOfItem> for ItemForm {
    fn from(form: FormOfItem) -> Self {
        ItemForm { words: form.words, string: form.string }
    }
}

impl RootLine {
    /// Of a collection.
    pub fn of(name: &str, description: &Description) -> Self {
        let (kind, items) = match description {
            Description::Blob => (Kind::Blob, None),
            Description::HashMap(items) => (Kind::HashMap, Some(items)),
            Description::OrderedMap(items) => (Kind::OrderedMap, Some(items)),
            Description::Vector { .. } => (Kind::Vector, None),
        };
        let vector = match description {
            Description::Vector { pitch, types } => Some((*pitch, *types)),
            Description::Blob | Description::HashMap(_) | Description::OrderedMap(_) => None,
        };
        RootLine {
            name: name.to_owned(),
            kind,
            key: items.map(|items| items.key.into()),
            value: items.map(|items| items.value.into()),
            counted: items.map(|items| items.counted),
            pitch: vector.map(|(pitch, _)| pitch),
            types: items.map(|items| items.types).or(vector.map(|(_, types)| types)),
        }
    }

    /// The collection that it begins.
    ///
    /// # Errors
    /// The fault in it.
    pub fn description(&self) -> Result<Description, String> {
        let description = match (self, self.kind) {
            (
                RootLine {
                    key: None, value: None, counted: None, pitch: None, types: None, ..
                },
                Kind::Blob,
            ) => Description::Blob,
            (
                RootLine {
                    key: None,
                    value: None,
                    counted: None,
                    pitch: Some(pitch),
                    types: Some(types),
                    ..
                },
                Kind::Vector,
            ) => Description::Vector { pitch: *pitch, types: *types },
            (
                RootLine {
                    key: Some(key),
                    value: Some(value),
                    counted: Some(counted),
                    pitch: None,
                    types: Some(types),
                    ..
                },
                Kind::HashMap | Kind::OrderedMap,
            ) => {
                let items = Items {
                    key: (*key).into(),
                    value: (*value).into(),
                    counted: *counted,
                    types: *types,
                };
                match self.kind {
                    Kind::HashMap => Description::HashMap(items),
                    Kind::OrderedMap | Kind::Blob | Kind::Vector => Description::OrderedMap(items),
                }
            }
            _ => {
                return Err(
                    "a map has key, value, counted and types, a vector pitch and types, a blob none of them".to_owned(),
                );
            }
        };
        description.check().map_err(|error| error.to_string())?;
        Ok(description)
    }
}

impl EntryLine {
    /// Of an entry.
    pub fn of(key: Element, value: Element) -> Self {
        EntryLine { key: parts(key), value: parts(value) }
    }

    /// The entry of a collection.
    ///
    /// # Errors
    /// The fault in it.
    pub fn entry(self, description: &Description) -> Result<(Element, Element), String> {
        let (key, value) = description.forms();
        if *description == Description::Blob {
            return Ok((element(self.key, 0, false)?, element(self.value, 0, true)?));
        }
        let of = |parts, form: ItemForm| element(parts, form.words - form.string, form.string > 0);
        Ok((of(self.key, key)?, of(self.value, value)?))
    }
}

fn parts(element: Element) -> Vec<Part> {
    let words = element.words.into_iter().map(|word| match word {
        0..INEXACT => Part::Number(word),
        _ => Part::Text(word.to_string()),
    });
    let string = element.string.map(|bytes| match String::from_utf8(bytes) {
        Ok(text) => Part::Text(text),
        Err(error) => Part::Bytes { base64: STANDARD.encode(error.as_bytes()) },
    });
    words.chain(string).collect()
}

fn element(parts: Vec<Part>, words: usize, has_string: bool) -> Result<Element, String> {
    let expected = words + usize::from(has_string);
    if parts.len() != expected {
        return Err(format!("an item has {} parts, and should have {expected}", parts.len()));
    }
    let mut element = Element::default();
    for (index, part) in parts.into_iter().enumerate() {
        match part {
            Part::Number(word) if index < words => element.words.push(word),
            Part::Text(digits) if index < words => {
                let word = digits.parse().map_err(|_| "a word is not a number below 2^64")?;
                element.words.push(word);
            }
            Part::Text(text) => element.string = Some(text.into_bytes()),
            Part::Bytes { base64 } if index >= words => {
                let bytes =
                    STANDARD.decode(base64).map_err(|error| format!("no base64: {error}"))?;
                element.string = Some(bytes);
            }
            Part::Number(_) => return Err("a byte string is a text, or has base64".to_owned()),
            Part::Bytes { .. } => return Err("a word is not a number below 2^64".to_owned()),
        }
    }
    Ok(element)
}
