use super::gene::{Gene, Segment};
use super::join::Entries;
use super::set::Set;
use super::{Parameters, gene};
use crate::Computation;
use crate::stamp::Input;
use crate::zeroed;
use perdura::testing::TestHeap;

#[test]
fn segments_have_beginnings_and_ends() {
    let letters = b"ACGTTGCAACGTTGCAACGTTGCAACGTTGCAACGTTGCAACGTTGCAACGTTGCAACGTTGCA";
    for len in [2, 16, 31, 32, 33, 64] {
        let segment = Segment::of(&letters[..len]);
        assert_eq!(Segment::from_words(segment.words(), len as u64), segment);
        assert!(segment.letters(0).eq(letters[..len].iter().copied()));
        assert!(segment.letters(1).eq(letters[1..len].iter().copied()));
        for part in 1..len {
            assert_eq!(segment.beginning(part as u64), Segment::of(&letters[..part]));
            assert_eq!(segment.ending(part as u64), Segment::of(&letters[len - part..len]));
        }
        let mut hash = 0;
        for (part, letter) in (1..).zip(segment.letters(0)) {
            hash = gene::hashed_on(hash, letter);
            assert_eq!(segment.beginning(part).hash(), hash, "the hash rolls on");
        }
    }
}

#[test]
fn segments_cover_the_gene() {
    for (segments, gene) in [(600, 64), (20, 64), (3, 40)] {
        let parameters = Parameters { gene, segments, ..Parameters::of(Input::Small) };
        let Ok(gene) = Gene::drawn(parameters, 3) else { continue };
        let mut covered = vec![false; gene.len() as usize];
        for segment in gene.segments() {
            let letters: Vec<u8> = segment.letters(0).collect();
            let at = gene.nucleotides().windows(16).position(|part| part == letters);
            let at = at.expect("a part of the gene");
            covered[at..at + 16].fill(true);
        }
        assert!(covered.iter().all(|covered| *covered));
    }
    let few = Parameters { gene: 4_000, segments: 1, segment: 4 };
    assert!(matches!(gene::Gene::drawn(few, 3), Err(crate::Failure::Parameters(_))));
}

#[test]
fn chains_are_joined_and_not_to_themselves() {
    let mut heap = TestHeap::new();
    let set = Set { at: zeroed::allocate(&mut heap, 8 * 8).expect("buckets"), buckets: 8 };
    let parts = [&b"ACGTAC"[..], b"GTACCA", b"ACCATT"].map(Segment::of);
    for part in parts {
        assert!(set.insert(&mut heap, part, &Computation::default()).expect("a segment"));
        assert!(
            !set.insert(&mut heap, part, &Computation::default()).expect("a segment"),
            "there already"
        );
    }
    let entries = Entries::create(&mut heap, 4, 6).expect("entries");
    for bucket in 0..8 {
        for (node, _) in set.bucket(&mut heap, bucket, 6).expect("a bucket") {
            entries.claim(&mut heap, 3, node).expect("an entry");
        }
    }
    let taken = entries.taken(&mut heap, 0..4, 6).expect("entries");
    let place = |segment| taken.iter().find(|entry| entry.1 == segment).expect("an entry").0;
    let [a, b, c] = parts.map(place);
    for (end, other, overlap, joined) in
        [(b, c, 4, true), (a, c, 2, false), (c, b, 1, false), (a, b, 4, true), (c, a, 2, false)]
    {
        let did = Entries::join(&mut heap, end, other, overlap).expect("a join");
        assert_eq!(did, joined, "{end} {other}");
    }
    assert_eq!(entries.chains(&mut heap, 6).expect("a chain"), b"ACGTACCATT");
    // A chain that says that it is longer.
    heap.damage(a + 48, 11);
    assert!(entries.chains(&mut heap, 6).is_err());
}
