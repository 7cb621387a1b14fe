//! Hash values.

use super::Short;
use super::entry::{Form, Kind};
use super::table::{Table, TableValue};
use perdura::collections::{Bytes, HashMap};

/// A hash.
pub(crate) type Hash = Table<Bytes<2>>;
/// The fields of a large hash.
pub(crate) type Fields = HashMap<Short, Bytes<2>>;

impl TableValue for Bytes<2> {
    const KIND: Kind = Kind::Hash;
    const SMALL: Form = Form::Image;
    const LARGE: Form = Form::Fields;

    fn lend(bytes: &[u8]) -> &[u8] {
        bytes
    }

    fn bytes(owned: Vec<u8>) -> Vec<u8> {
        owned
    }
}
