//! The arrows between the files of this crate: each file uses only files below it, and no file uses itself by way of
//! others. So they can be read one after the other.

use crate::graph;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn files_use_only_what_lies_below_them() {
    let below = graph::arrows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let arrows: usize = below.values().map(BTreeSet::len).sum();
    assert!(arrows > 150, "only {arrows} arrows were found");
    assert_eq!(graph::circles(&below), Vec::<Vec<String>>::new(), "circles");
}
