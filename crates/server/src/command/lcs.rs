//! LCS: the longest common subsequence of two strings.

use super::{Call, Command, Failure, Outcome, Run};
use crate::keyspace::{Kind, text};

const TWO: (i32, i32, i32) = (1, 2, 1);

pub(super) const TABLE: &[Command] =
    &[Command::new("lcs", -3, TWO, Run::Read(lcs), "What two strings have in common.")];

/// Bytes of the table that is computed: Redis's limit too.
const TABLE_MAX: usize = 512 << 20;

/// The arguments.
#[derive(Default)]
struct Query {
    len: bool,
    index: bool,
    least: usize,
    with_len: bool,
}

fn parse(call: &Call<'_>) -> Outcome<Query> {
    let (args, mut query) = (call.args, Query::default());
    let mut at = 3;
    while at < args.len() {
        match () {
            () if args.is(at, "idx") => query.index = true,
            () if args.is(at, "len") => query.len = true,
            () if args.is(at, "withmatchlen") => query.with_len = true,
            () if args.is(at, "minmatchlen") && at + 1 < args.len() => {
                query.least = usize::try_from(call.integer(at + 1)?).unwrap_or(0);
                at += 1;
            }
            () => return Err(Failure::SYNTAX),
        }
        at += 1;
    }
    if query.index && query.len {
        let text = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::Say(text.into()));
    }
    Ok(query)
}

fn string(call: &mut Call<'_>, at: usize) -> Outcome<Vec<u8>> {
    match call.look(call.args.at(at))? {
        None => Ok(Vec::new()),
        Some(entry) if entry.kind() == Kind::String => Ok(text::read(call.tx, entry)?),
        Some(_) => Err(Failure::Say("ERR The specified keys must contain string values".into())),
    }
}

fn lcs(call: &mut Call<'_>) -> Outcome {
    let (a, b) = (string(call, 1)?, string(call, 2)?);
    let query = parse(call)?;
    let width = b.len() + 1;
    let cells = (a.len() + 1).checked_mul(width).filter(|cells| cells / (TABLE_MAX / 4) == 0);
    let Some(cells) = cells else {
        let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        return Err(Failure::Say(text.into()));
    };
    // The length of what the first bytes of both have in common.
    let mut common = vec![0_u32; cells];
    for i in 1..=a.len() {
        let (before, row) = common.split_at_mut(i * width);
        let before = &before[(i - 1) * width..];
        for j in 1..=b.len() {
            row[j] = match a[i - 1] == b[j - 1] {
                true => before[j - 1] + 1,
                false => before[j].max(row[j - 1]),
            };
        }
    }
    let len = common[cells - 1];
    if query.len {
        call.out.size(len.into());
        return Ok(());
    }
    let found = matches(&a, &b, &common);
    if !query.index {
        let mut bytes = Vec::with_capacity(len as usize);
        found.iter().rev().for_each(|one| bytes.extend_from_slice(&a[one.a..one.a + one.len]));
        call.out.bulk(&bytes);
        return Ok(());
    }
    call.out.map(2);
    call.out.bulk(b"matches");
    let (start, mut count) = (call.out.len(), 0);
    for one in found.iter().filter(|one| one.len >= query.least) {
        count += 1;
        call.out.array(if query.with_len { 3 } else { 2 });
        for from in [one.a, one.b] {
            call.out.array(2);
            call.out.size(from as u64);
            call.out.size((from + one.len - 1) as u64);
        }
        if query.with_len {
            call.out.size(one.len as u64);
        }
    }
    call.out.array_since(start, count);
    call.out.bulk(b"len");
    call.out.size(len.into());
    Ok(())
}

/// Bytes that both strings have, one after the other.
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// The matches, the last one first.
fn matches(a: &[u8], b: &[u8], common: &[u32]) -> Vec<Match> {
    let width = b.len() + 1;
    let (mut i, mut j) = (a.len(), b.len());
    let mut found: Vec<Match> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            match found.last_mut() {
                Some(last) if last.a == i && last.b == j => {
                    (last.a, last.b, last.len) = (i - 1, j - 1, last.len + 1);
                }
                _ => found.push(Match { a: i - 1, b: j - 1, len: 1 }),
            }
            (i, j) = (i - 1, j - 1);
        } else if common[(i - 1) * width + j] > common[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    found
}
