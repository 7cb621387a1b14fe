//! Messages on their way to clients: each is written by the thread of its client.

use crate::protocol::{Protocol, Reply};
use crate::pubsub::{Kind, Listener, Name, PER_POST, Post};
use crate::tracking::Invalid;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of messages that may be on their way to one thread: beyond, those whom they are for are disconnected.
const UNDELIVERED_MAX: usize = 64 << 20;

/// A message on its way to a client.
pub(crate) struct Parcel {
    pub(crate) to: Listener,
    letter: Letter,
}

enum Letter {
    /// A published one.
    Message { kind: Kind, pattern: Option<Name>, post: Arc<Post> },
    /// Keys that the client may have kept are not valid any longer; or another one, if it is `redirected`.
    Invalid { keys: Arc<Invalid>, redirected: bool },
    /// The client with this number is gone, which was to get such messages.
    Broken(u64),
}

/// The channel of the messages to clients that can get none but those of channels.
const INVALIDATE: &[u8] = b"__redis__:invalidate";

impl Letter {
    /// Bytes of memory that it takes besides its own.
    fn bytes(&self) -> usize {
        match self {
            Letter::Message { post, .. } => post.bytes(),
            Letter::Invalid { keys, .. } => match &**keys {
                Invalid::Keys(keys) => keys.iter().map(|key| key.len() + PER_POST).sum(),
                Invalid::All => 0,
            },
            Letter::Broken(_) => 0,
        }
    }

    /// Whether it takes the same memory as another one.
    fn shares(&self, other: &Letter) -> bool {
        match (self, other) {
            (Letter::Message { post, .. }, Letter::Message { post: other, .. }) => {
                Arc::ptr_eq(post, other)
            }
            (Letter::Invalid { keys, .. }, Letter::Invalid { keys: other, .. }) => {
                Arc::ptr_eq(keys, other)
            }
            _ => false,
        }
    }
}

/// Bytes of memory that these parcels take. Those of one message share it, and follow one another.
fn bytes_of(parcels: &[Parcel]) -> usize {
    let messages = parcels.chunk_by(|one, next| one.letter.shares(&next.letter));
    let own = size_of_val(parcels);
    messages.map(|same| same[0].letter.bytes()).sum::<usize>() + own
}

impl Parcel {
    pub(crate) fn message(
        to: Listener,
        kind: Kind,
        pattern: Option<Name>,
        post: Arc<Post>,
    ) -> Self {
        Parcel { to, letter: Letter::Message { kind, pattern, post } }
    }

    pub(crate) fn invalid(to: Listener, keys: Arc<Invalid>, redirected: bool) -> Self {
        Parcel { to, letter: Letter::Invalid { keys, redirected } }
    }

    pub(crate) fn broken(to: Listener, redirect: u64) -> Self {
        Parcel { to, letter: Letter::Broken(redirect) }
    }

    /// Writes it as the client gets it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, protocol: Protocol) {
        let mut out = Reply::new(out, protocol);
        match &self.letter {
            Letter::Message { kind, pattern, post } => {
                write_message(&mut out, *kind, pattern.as_ref(), post);
            }
            Letter::Invalid { keys, .. } if protocol == Protocol::Resp3 => {
                out.push(2);
                out.bulk(b"invalidate");
                write_keys(&mut out, keys);
            }
            // In the older protocol, a client that tracks for itself can be told nothing.
            Letter::Invalid { keys, redirected } if *redirected && self.to.client.listens() => {
                out.array(3);
                out.bulk(b"message");
                out.bulk(INVALIDATE);
                write_keys(&mut out, keys);
            }
            Letter::Broken(redirect) if protocol == Protocol::Resp3 => {
                out.push(2);
                out.bulk(b"tracking-redir-broken");
                out.size(*redirect);
            }
            Letter::Invalid { .. } | Letter::Broken(_) => {}
        }
    }
}

fn write_message(out: &mut Reply<'_>, kind: Kind, pattern: Option<&Name>, post: &Post) {
    let word: &[u8] = match kind {
        Kind::Channel => b"message",
        Kind::Pattern => b"pmessage",
        Kind::Shard => b"smessage",
        Kind::Monitor => return out.raw(&post.message),
    };
    out.push(if pattern.is_some() { 4 } else { 3 });
    out.bulk(word);
    if let Some(pattern) = pattern {
        out.bulk(pattern);
    }
    out.bulk(&post.channel);
    out.bulk(&post.message);
}

fn write_keys(out: &mut Reply<'_>, keys: &Invalid) {
    match keys {
        Invalid::All => out.null(),
        Invalid::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
    }
}

/// The messages that are on their way to one thread.
#[derive(Default)]
pub(crate) struct Mailbox {
    parcels: Mutex<Vec<Parcel>>,
    bytes: AtomicUsize,
}

impl Mailbox {
    /// Adds messages. Those for which there is no room are returned: nobody is to be left with a part of them.
    pub(crate) fn put(&self, mut parcels: Vec<Parcel>) -> Vec<Parcel> {
        let bytes = bytes_of(&parcels);
        let before = self.bytes.load(Ordering::Relaxed);
        if before > 0 && before + bytes > UNDELIVERED_MAX {
            return parcels;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner).append(&mut parcels);
        Vec::new()
    }

    pub(crate) fn take(&self) -> Vec<Parcel> {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes.store(0, Ordering::Relaxed);
        std::mem::take(&mut parcels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;
    use crate::pubsub::{PubSub, Subscriptions};

    fn post(bytes: usize) -> Post {
        Post { kind: Kind::Channel, channel: b"c".to_vec(), message: vec![b'x'; bytes] }
    }

    fn listener(number: u64) -> Listener {
        let address: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        let client = Arc::new(Listing::new(number, address, address));
        Listener { worker: 0, slot: number as usize, client }
    }

    /// A message counts once for each thread, however many of its clients get it; what is too much is returned whole.
    #[test]
    fn a_message_for_many_takes_room_once() {
        let pubsub = PubSub::default();
        for number in 0..100 {
            let mut own = Subscriptions::default();
            pubsub.subscribe(&mut own, &listener(number), Kind::Channel, b"c");
        }
        let mailbox = Mailbox::default();
        let put = |count: usize| {
            let posts = (0..count).map(|_| post(1 << 20)).collect();
            let parcels = pubsub.address(posts).remove(&0).expect("there are listeners");
            mailbox.put(parcels).len()
        };
        assert_eq!([put(10), put(40), put(20)], [0, 0, 2_000]);
        assert_eq!(mailbox.take().len(), 5_000);
        assert_eq!(put(20), 0);
    }
}
