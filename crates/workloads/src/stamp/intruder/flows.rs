//! The traffic, and the recognition of attacks.

use crate::random::Random;
use std::collections::BTreeSet;
use std::ops::Range;

/// A text with one of these words in it is an attack: common words, of 3.9 letters on average, as STAMP has.
const SIGNATURES: [&str; 71] = [
    "about", "after", "all", "also", "and", "any", "back", "because", "but", "can", "come",
    "could", "day", "even", "first", "for", "from", "get", "give", "good", "have", "him", "his",
    "how", "into", "its", "just", "know", "like", "look", "make", "most", "new", "not", "now",
    "one", "only", "other", "our", "out", "over", "say", "see", "she", "some", "take", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "think", "this", "time",
    "two", "use", "want", "way", "well", "what", "when", "which", "who", "will", "with", "work",
    "year",
];

/// Whether there is an attack in a text, in lower or upper case, and how many bytes were looked at to find out: word by
/// word, at each place of the text until a byte differs.
pub(super) fn search(text: &[u8]) -> (bool, u64) {
    let text = text.to_ascii_lowercase();
    let mut looked_at = text.len() as u64;
    let mut begins = |at: &[u8], word: &[u8]| {
        let same = at.iter().zip(word).take_while(|(a, b)| a == b).count();
        looked_at += (same + 1).min(word.len()).min(at.len()) as u64;
        same == word.len()
    };
    let mut has = |word: &str| (0..text.len()).any(|at| begins(&text[at..], word.as_bytes()));
    let found = SIGNATURES.iter().any(|word| has(word));
    (found, looked_at)
}

/// A piece of a flow's text.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) flow: u64,
    pub(super) fragment: u64,
    pub(super) fragments: u64,
    bytes: Range<usize>,
}

/// All packets, in the order in which they come.
#[derive(Debug)]
pub(super) struct Flows {
    texts: Vec<Vec<u8>>,
    packets: Vec<Packet>,
    attacks: BTreeSet<u64>,
}

impl Flows {
    pub(super) fn drawn(attack_percent: u64, longest: u64, flows: u64, seed: u64) -> Self {
        let mut random = Random::new(seed, 1 << 33);
        let (mut texts, mut packets) = (Vec::new(), Vec::new());
        for flow in 0..flows {
            let text = draw_text(attack_percent, longest, &mut random);
            cut(flow, text.len() as u64, &mut random, &mut packets);
            texts.push(text);
        }
        random.shuffle(&mut packets);
        // Any text may have an attack in it by chance.
        let attacks = (0..).zip(&texts).filter(|(_, text)| search(text).0);
        let attacks = attacks.map(|(flow, _)| flow).collect();
        Flows { texts, packets, attacks }
    }

    pub(super) fn len(&self) -> u64 {
        self.texts.len() as u64
    }

    pub(super) fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// The flows that have an attack.
    pub(super) fn attacks(&self) -> &BTreeSet<u64> {
        &self.attacks
    }

    pub(super) fn text(&self, flow: u64) -> Option<&[u8]> {
        self.texts.get(flow as usize).map(Vec::as_slice)
    }

    pub(super) fn bytes(&self, packet: &Packet) -> &[u8] {
        &self.texts[packet.flow as usize][packet.bytes.clone()]
    }
}

fn draw_text(attack_percent: u64, longest: u64, random: &mut Random) -> Vec<u8> {
    if random.below(100) < attack_percent {
        let word = random.below(SIGNATURES.len() as u64);
        return SIGNATURES[word as usize].as_bytes().to_vec();
    }
    let length = random.between(1, longest);
    (0..length).map(|_| random.between(u64::from(b' '), u64::from(b'~')) as u8).collect()
}

/// Cuts a text of `len` bytes into a random number of pieces of equal length; the last one has the rest.
fn cut(flow: u64, len: u64, random: &mut Random, packets: &mut Vec<Packet>) {
    let fragments = random.between(1, len);
    let each = len / fragments;
    for fragment in 0..fragments {
        let first = fragment * each;
        let end = if fragment + 1 == fragments { len } else { first + each };
        packets.push(Packet { flow, fragment, fragments, bytes: first as usize..end as usize });
    }
}
