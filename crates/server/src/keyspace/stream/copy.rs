//! A copy of a stream, with its groups.

use super::{Id, Stream};
use perdura::{Error, Result, Tx};

impl Stream {
    /// A new stream with the same entries and groups.
    pub(crate) fn copy(&self, tx: &mut dyn Tx, most: u64) -> Result<Stream> {
        let mut copy = Stream::create(tx)?;
        self.walk::<Error>(tx, (Id::MIN, Id::MAX), false, &mut |tx, entry| {
            let texts: Vec<&[u8]> = entry.texts.iter().collect();
            copy.append(tx, entry.id, texts.into_iter(), most)?;
            Ok(true)
        })?;
        (copy.last, copy.added, copy.deleted) = (self.last, self.added, self.deleted);
        self.each_group::<Error>(tx, &mut |tx, name, group| {
            let (last, read) = (group.last(tx)?, group.read(tx)?);
            copy.create_group(tx, &name, last, read)?;
            let Some(new) = copy.group(tx, &name)? else { return Ok(()) };
            group.each_consumer::<Error>(tx, &mut |tx, name, consumer| {
                let (seen, active) = consumer.times(tx)?;
                let to = new.create_consumer(tx, &name, seen)?;
                to.set_active(tx, active)?;
                group.walk::<Error>(tx, (Id::MIN, Id::MAX), Some(consumer), &mut |tx, id, old| {
                    new.assign(tx, id, to, (old.time, old.count)).map(|()| true)
                })
            })
        })?;
        Ok(copy)
    }
}
