//! Lists that no compiler checks. Every file of a crate's `tests/all` is named by its `main.rs`: otherwise its tests
//! would not be compiled, unnoticed. Every source file that the documents name exists.

use std::fs;
use std::path::Path;

#[test]
fn every_file_of_tests_is_a_module() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let (mut folders, mut files) = (0, 0);
    for its in fs::read_dir(crates).expect("the crates") {
        let folder = its.expect("an entry").path().join("tests/all");
        let Ok(main) = fs::read_to_string(folder.join("main.rs")) else { continue };
        folders += 1;
        for entry in fs::read_dir(&folder).expect("the tests") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_str().expect("text");
            let named = main.lines().any(|line| line == format!("mod {name};"));
            assert!(named || name == "main", "{} is not run: name it in main.rs", path.display());
            files += 1;
        }
    }
    assert!(folders >= 6 && files > 50, "{folders} folders, {files} files");
}

#[test]
fn every_file_that_documents_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut named = 0;
    for document in ["CONTRIBUTING.md", "ARCHITECTURE.md", "README.md"] {
        let text = fs::read_to_string(root.join(document)).expect(document);
        // Texts between backquotes, outside of blocks of code.
        for path in text.split('`').skip(1).step_by(2).filter(|path| is_path(path)) {
            let crates =
                ["", "crates", "crates/server/src", "crates/machine/src", "crates/engine/src"];
            let found = crates.iter().any(|folder| root.join(folder).join(path).exists());
            assert!(found, "{document} names {path}, which is not there");
            named += 1;
        }
    }
    assert!(named > 40, "{named} files");
}

/// Whether a text names a file of sources.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.ends_with(".rs") && text.contains('/') && text.chars().all(plain)
}

/// docs/verification.md says how many models there are.
#[test]
fn models_are_counted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for its in fs::read_dir(root.join("crates")).expect("the crates") {
        let mut folders = vec![its.expect("an entry").path().join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_str().expect("text");
                if path.is_dir() {
                    folders.push(path);
                } else if name.ends_with("models.rs") {
                    let text = fs::read_to_string(&path).expect("a source");
                    count += text.lines().filter(|line| line.trim() == "#[test]").count();
                }
            }
        }
    }
    let document = fs::read_to_string(root.join("docs/verification.md")).expect("the document");
    assert!(count > 12, "{count} models");
    assert!(document.contains(&format!("There are {count} models")), "there are {count}");
}
