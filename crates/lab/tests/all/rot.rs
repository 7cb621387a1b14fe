//! Pools damaged by their medium: with checksums no wrong value is served unnoticed, and `pool check` names the
//! damage.

use crate::common::{arg, fail, succeed};
use perdura::{Options, Purpose, Root, TxExt};
use serde_json::Value;
use tempfile::tempdir;

/// The sums in a setting's table: refused, a read fails, checked, harmless, wrong.
fn fates(setting: &Value) -> [u64; 5] {
    let kinds = setting["found"]["fates"].as_array().expect("kinds");
    std::array::from_fn(|fate| {
        kinds.iter().map(|kind| kind[1][fate].as_u64().expect("a number")).sum()
    })
}

#[test]
fn nothing_wrong_is_served_unnoticed_with_checksums() {
    let folder = tempdir().expect("a folder");
    let text =
        succeed(&["rot", "--pools", "400", "--seed", "4", "--json", "--dir", arg(folder.path())]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let [on, off] = [0, 1].map(|index| &report["settings"][index]);
    assert_eq!((&on["checksums"], &off["checksums"]), (&true.into(), &false.into()));
    let (with, without) = (fates(on), fates(off));
    assert_eq!(with[4], 0, "{}", on["found"]["unnoticed"]);
    assert_eq!(with.iter().sum::<u64>(), 400);
    assert!(with[0] > 50 && with[1] > 20 && with[2] > 5 && with[3] > 20, "{with:?}");
    // The same damage without checksums: otherwise the test would show nothing.
    assert!(without[4] > 10, "{without:?}");
}

#[test]
fn a_damaged_page_is_named_and_the_option_is_shown() {
    let folder = tempdir().expect("a folder");
    let (path, plain) = (folder.path().join("pool"), folder.path().join("plain"));
    let info = |path| -> Value {
        serde_json::from_str(&succeed(&["pool", "info", "--json", arg(path)])).expect("JSON")
    };
    succeed(&["pool", "create", "--checksums", "--size", "4M", arg(&path)]);
    succeed(&["pool", "create", "--size", "4M", arg(&plain)]);
    assert_eq!(
        (&info(&path)["checksums"], &info(&plain)["checksums"]),
        (&true.into(), &false.into())
    );
    assert!(succeed(&["pool", "info", arg(&path)]).contains("checksums     of all pages"));
    for (path, noticed) in [(&path, true), (&plain, false)] {
        let pool = Options::new().open(path).expect("a pool");
        let mut session = pool.session().expect("a session");
        let at = session
            .transaction(|tx| {
                let at = tx.new_bytes(Purpose::Value, &[5; 100])?;
                tx.set_root("own", Root { at, kind: 1000 })?;
                Ok(at)
            })
            .expect("an object");
        drop(session);
        pool.close().expect("a clean end");
        let mut bytes = std::fs::read(path).expect("a file");
        bytes[at as usize + 40] ^= 4;
        std::fs::write(path, bytes).expect("a file");
        if noticed {
            let page = format!("the page at {:#x} does not match its checksum", at - at % 4096);
            let complaint = fail(&["pool", "check", arg(path)]);
            assert!(complaint.contains(&page), "{complaint}");
        } else {
            succeed(&["pool", "check", arg(path)]);
        }
    }
}
