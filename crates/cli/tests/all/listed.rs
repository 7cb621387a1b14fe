//! In each crate, every file of `tests/all` is named by its `main.rs`: otherwise its tests would not be compiled,
//! unnoticed.

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
