//! Every public type has an example in its documentation.

use std::fs;
use std::path::Path;

/// Modules for tools and for this project's other crates.
const INSIDE: [&str; 8] = [
    "alloc",
    "collections/form.rs",
    "collections/model",
    "collections/untyped",
    "persist/plain.rs",
    "roots.rs",
    "superblock.rs",
    "testing",
];

/// Types that are shown in another one's example.
const SHOWN_ELSEWHERE: [(&str, &str); 14] = [
    ("AnyHeap", "Heap"),
    ("AnySession", "Heap"),
    ("AnyTx", "Heap"),
    ("HeapSession", "Heap"),
    ("HeapTx", "Heap"),
    ("Format", "Heap"),
    ("Opening", "Heap"),
    ("Durable", "Pool::durable"),
    ("Iter", "HashMap::iter, OrderedMap::iter"),
    ("BytesProbe", "Bytes"),
    ("Itself", "derived code alone"),
    ("Reader", "derived code alone"),
    ("Writer", "derived code alone"),
    ("TestHeap", "most examples"),
];

#[test]
fn every_public_type_has_an_example() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut without = Vec::new();
    look(&source, &source, &mut without);
    assert!(without.is_empty(), "no example in the documentation of {}", without.join(", "));
}

fn look(folder: &Path, source: &Path, without: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(source).expect("inside").display().to_string();
        if INSIDE.iter().any(|inside| name.starts_with(inside)) {
            continue;
        }
        if path.is_dir() {
            look(&path, source, without);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let mut documentation = String::new();
        for line in text.lines() {
            let of = ["pub struct ", "pub enum ", "pub trait "];
            match of.iter().find_map(|kind| line.strip_prefix(kind)) {
                Some(rest) => {
                    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                    let elsewhere = SHOWN_ELSEWHERE.iter().any(|(item, _)| *item == &rest[..end]);
                    if !documentation.contains("```") && !elsewhere {
                        without.push(format!("{name}: {}", &rest[..end]));
                    }
                    documentation.clear();
                }
                None if line.starts_with("///") => documentation += line,
                // Skips attributes.
                None if line.is_empty() || line.starts_with("}") => documentation.clear(),
                None => {}
            }
        }
    }
}
