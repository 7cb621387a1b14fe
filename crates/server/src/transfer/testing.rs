//! Exports compared, whatever the order of their keys.

use super::record::{Change, Record};
use super::stream::Stream;

/// The contents of an export, one field or member each, in order.
pub(crate) fn items(bytes: &[u8]) -> Vec<String> {
    let (mut stream, mut all) = (Stream::new(bytes), Vec::new());
    while let Some(records) = stream.next().expect("a whole export") {
        for (Record { db, key, change }, _) in records {
            let key = String::from_utf8_lossy(&key).into_owned();
            match change {
                Change::Fields(pairs) => {
                    all.extend(pairs.iter().map(|pair| format!("{db} {key} {pair:?}")));
                }
                Change::Set(members) => {
                    all.extend(members.iter().map(|member| format!("{db} {key} {member:?}")));
                }
                Change::Members(members) => {
                    all.extend(members.iter().map(|member| format!("{db} {key} {member:?}")));
                }
                other => all.push(format!("{db} {key} {other:?}")),
            }
        }
    }
    all.sort();
    all
}
