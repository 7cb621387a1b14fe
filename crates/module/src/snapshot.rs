//! What a forked child reads: the host forks to write all keys for a replica, and a child cannot read the pool, whose
//! file the parent goes on writing.
//!
//! So a thread of the parent keeps a read transaction open, which begins before the parent does anything after the
//! fork, and answers the child's questions over a pair of sockets. It ends when the child does.

use crate::work::Contents;
use perdura::{Error, Pool, Result, Tx};
use perdura_server::Commands;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

/// Bytes of a key's name; the host has none that is larger.
const KEY_MAX: usize = 512 << 20;

/// The sockets for the next child.
pub(crate) struct Snapshots {
    /// The parent's end. A child closes its copy, so that it hears when the parent is gone.
    parent: Option<UnixStream>,
    child: Option<UnixStream>,
}

impl Snapshots {
    pub(crate) fn new() -> io::Result<Self> {
        let (parent, child) = UnixStream::pair()?;
        Ok(Snapshots { parent: Some(parent), child: Some(child) })
    }

    /// A child was forked: begins to serve it, from the pool as it is now. Called outside of transactions. If that fails,
    /// the child finds its socket closed, and fails as well.
    pub(crate) fn serve(&mut self, pool: &Pool) {
        let next = Snapshots::new().unwrap_or(Snapshots { parent: None, child: None });
        let Some(parent) = std::mem::replace(self, next).parent else { return };
        let (begun, wait) = mpsc::channel();
        let pool = pool.clone();
        let served = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            // The child hears of a failure: its socket is closed.
            let _ = answer(&pool, parent, &begun);
        });
        if served.is_ok() {
            // An error: it has failed before it could begin.
            let _ = wait.recv();
        }
    }

    /// Asks for a key's contents, in the child.
    pub(crate) fn ask(&mut self, db: u8, key: &[u8]) -> io::Result<Contents> {
        self.parent = None;
        let socket = self.child.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut question = vec![db];
        question.extend_from_slice(&(key.len() as u64).to_le_bytes());
        question.extend_from_slice(key);
        socket.write_all(&question)?;
        let expires = read_u64(socket)?;
        let mut payload = Vec::new();
        let len = read_u64(socket)?;
        socket.take(len).read_to_end(&mut payload)?;
        if payload.len() as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Contents { payload, expires })
    }
}

fn read_u64(socket: &mut UnixStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    socket.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Answers a child until it ends.
fn answer(pool: &Pool, mut socket: UnixStream, begun: &mpsc::Sender<()>) -> Result<()> {
    let mut handle = pool.session()?;
    let commands = Commands::open(pool, &mut handle)?;
    let mut is_snapshot = false;
    handle.read(|tx| {
        if !std::mem::replace(&mut is_snapshot, true) {
            // A transaction that reads moves on with those that write, as long as it can, and reads a snapshot from its
            // beginning on only when it is run again.
            return Err(Error::Conflict);
        }
        // Nobody waits for the second time.
        let _ = begun.send(());
        while let Ok(()) = answer_one(&commands, tx, &mut socket)? {}
        Ok(())
    })
}

/// Answers one question. The inner error: the child is gone.
fn answer_one(
    commands: &Commands,
    tx: &mut dyn Tx,
    socket: &mut UnixStream,
) -> Result<io::Result<()>> {
    let mut db = [0];
    let asked = socket.read_exact(&mut db).and_then(|()| {
        let len = usize::try_from(read_u64(socket)?).map_err(io::Error::other)?;
        if len > KEY_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut key = vec![0; len];
        socket.read_exact(&mut key)?;
        Ok(key)
    });
    let key = match asked {
        Ok(key) => key,
        Err(error) => return Ok(Err(error)),
    };
    commands.begin();
    let contents = Contents::read(commands, tx, db[0], &key);
    commands.end(&contents.as_ref().map(drop).map_err(|_| Error::Invalid("a value")));
    let Contents { payload, expires } = contents?;
    let mut reply = Vec::with_capacity(payload.len() + 16);
    reply.extend_from_slice(&expires.to_le_bytes());
    reply.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    reply.extend_from_slice(&payload);
    Ok(socket.write_all(&reply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::{EngineKind, Options};
    use perdura_server::Request;

    /// The child's part is played by this process.
    #[test]
    fn a_child_sees_the_moment_of_its_fork() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().engine(EngineKind::CcStm).size(16 << 20);
        let pool = options.create(folder.path().join("a.pool")).unwrap();
        let mut handle = pool.session().unwrap();
        let commands = Commands::open(&pool, &mut handle).unwrap();
        let mut set = |value: &[u8]| {
            let request = Request::new([b"set".as_slice(), b"k", value, b"pxat", b"5000000000000"]);
            let (done, _) = commands.perform(&mut handle, &request).unwrap();
            assert_eq!(done.reply, b"+OK\r\n");
        };
        set(b"before");
        let mut snapshots = Snapshots::new().unwrap();
        let child = snapshots.child.as_ref().unwrap().try_clone().unwrap();
        snapshots.serve(&pool);
        let mut child = Snapshots { parent: None, child: Some(child) };
        for _ in 0..3 {
            set(b"after");
            let contents = child.ask(0, b"k").unwrap();
            assert_eq!(contents.expires, 5_000_000_000_000);
            assert_eq!(&contents.payload[..8], b"\0\x06before");
        }
        assert_eq!(child.ask(0, b"none").unwrap(), Contents::default());
        assert_eq!(child.ask(3, b"k").unwrap(), Contents::default());
    }
}
