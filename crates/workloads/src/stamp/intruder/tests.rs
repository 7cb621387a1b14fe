use super::flows::{Flows, search};

#[test]
fn attacks_are_found_in_any_letters() {
    let is_attack = |text| search(text).0;
    assert!(
        is_attack(b"xxBeCause!") && is_attack(b"the") && !is_attack(b"th e") && !is_attack(b"")
    );
}

#[test]
fn bytes_that_are_looked_at_are_counted() {
    assert_eq!(search(b""), (false, 0));
    // Each word's first byte at each place, and both bytes put into lower case.
    assert_eq!(search(b"!?"), (false, 2 + 2 * 71));
    // The first word, at the second place.
    assert_eq!(search(b"xabout"), (true, 6 + 1 + 5));
}

#[test]
fn packets_are_the_texts() {
    let flows = Flows::drawn(10, 12, 500, 3);
    let mut texts = vec![Vec::new(); 500];
    for packet in flows.packets() {
        texts[packet.flow as usize].push((packet.fragment, packet.fragments, flows.bytes(packet)));
    }
    for (flow, mut parts) in (0..).zip(texts) {
        parts.sort_unstable();
        assert!(parts.iter().all(|part| part.1 == parts.len() as u64));
        let text: Vec<u8> = parts.iter().flat_map(|part| part.2).copied().collect();
        assert_eq!(Some(text.as_slice()), flows.text(flow));
    }
    assert!((30..80).contains(&flows.attacks().len()), "{}", flows.attacks().len());
    assert!(flows.packets().windows(2).any(|two| two[0].flow > two[1].flow), "in any order");
}
