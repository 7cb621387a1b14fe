//! Commands to a server of its own on the pool, by a socket that only this process can reach, and its replies.

use super::TransferError;
use crate::keyspace;
use crate::options::Options;
use crate::serve::{Listener, Server, Shutdown};
use perdura::Pool;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes that are sent at a time.
const PIECE: usize = 64 << 10;
/// Bytes of a request, of a transaction, and of a reply.
pub(super) const REQUEST_MAX: usize = 2 << 30;

/// A folder that is gone in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a command stands: its file, if there are several, and the bytes before it.
#[derive(Clone)]
struct Place {
    file: Option<Arc<str>>,
    at: u64,
}

/// A command that failed: its place, and the error.
type Failed = Arc<Mutex<Option<(Place, String)>>>;

/// The server, and the connection to it.
pub(super) struct Feed {
    socket: UnixStream,
    buffer: Vec<u8>,
    commands: u64,
    /// The file of the commands that are sent.
    file: Option<Arc<str>>,
    /// The places of commands that are not answered yet.
    places: Option<Sender<Place>>,
    failed: Failed,
    replies: Option<JoinHandle<io::Result<()>>>,
    shutdown: Shutdown,
    server: Option<JoinHandle<Result<(), crate::ServeError>>>,
    _folder: Folder,
}

impl Feed {
    pub(super) fn start(pool: &Pool) -> Result<Self, TransferError> {
        let name = format!("perdura-import-{}-{:x}", std::process::id(), keyspace::unguessable());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::DirBuilder::new().mode(0o700).create(&folder.0)?;
        let path = folder.0.join("socket");
        let failed = |error: crate::ServeError| match error {
            crate::ServeError::Keyspace(what) => TransferError::Keyspace(what),
            crate::ServeError::Pool(error) => TransferError::Pool(error),
            other => TransferError::File(io::Error::other(other.to_string())),
        };
        let listener = Listener::bind_unix(&path, Some(0o600)).map_err(failed)?;
        let options = Options::new().threads(1).max_request(REQUEST_MAX).max_reply(REQUEST_MAX);
        let server = Server::with(pool, listener, options).map_err(failed)?.loading();
        let shutdown = server.shutdown();
        let server =
            std::thread::Builder::new().name("import".to_owned()).spawn(|| server.run())?;
        let socket = UnixStream::connect(&path)?;
        let (places, answered) = channel();
        let errors = Failed::default();
        let (input, noted) = (socket.try_clone()?, Arc::clone(&errors));
        let replies = std::thread::Builder::new().name("replies".to_owned());
        let replies = replies.spawn(move || read_replies(input, &answered, &noted))?;
        Ok(Feed {
            socket,
            buffer: Vec::new(),
            commands: 0,
            file: None,
            places: Some(places),
            failed: errors,
            replies: Some(replies),
            shutdown,
            server: Some(server),
            _folder: folder,
        })
    }

    /// The commands that follow are of this file, one of several.
    pub(super) fn begin_file(&mut self, name: &str) {
        self.file = Some(Arc::from(name));
    }

    /// Has a command performed, which stands at a place of its file.
    pub(super) fn send(&mut self, args: &[&[u8]], at: u64) -> Result<(), TransferError> {
        self.commands += 1;
        self.buffer.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            self.buffer.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            self.buffer.extend_from_slice(arg);
            self.buffer.extend_from_slice(b"\r\n");
        }
        if let Some(places) = &self.places {
            // Its receiver is gone only after an error, which is told below.
            let _ = places.send(Place { file: self.file.clone(), at });
        }
        if self.buffer.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TransferError> {
        self.check()?;
        let sent = self.socket.write_all(&self.buffer);
        self.buffer.clear();
        self.buffer.shrink_to(4 * PIECE);
        self.check()?;
        Ok(sent?)
    }

    /// The first command that failed, if there is one, with its file: it may have been sent long ago.
    fn check(&self) -> Result<(), TransferError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((Place { file, at }, what)) = &*failed else { return Ok(()) };
        let error = TransferError::Bad { at: *at, what: what.clone() };
        Err(match file {
            Some(file) => error.in_file(file),
            None => error,
        })
    }

    /// Waits for all replies, and ends the server. Returns how many commands were performed.
    pub(super) fn end(mut self) -> Result<u64, TransferError> {
        let sent = self.flush();
        self.places = None;
        let read = self.replies.take().map(JoinHandle::join);
        self.check()?;
        sent?;
        match read {
            Some(Ok(read)) => read?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        self.stop()?;
        Ok(self.commands)
    }

    fn stop(&mut self) -> Result<(), TransferError> {
        self.shutdown.shutdown();
        match self.server.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => Err(TransferError::File(io::Error::other(error.to_string()))),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Ok(()),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.places = None;
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.shutdown.shutdown();
        // What they have to tell was told, or follows from an error.
        let _ = self.replies.take().map(JoinHandle::join);
        let _ = self.server.take().map(JoinHandle::join);
    }
}

/// Reads a reply for each command, and notes the first error.
fn read_replies(input: UnixStream, places: &Receiver<Place>, failed: &Failed) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Ok(place) = places.recv() {
        if let Some(error) = read_reply(&mut input)? {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert((place, error));
            // Its writer waits no longer.
            return input.into_inner().shutdown(std::net::Shutdown::Both);
        }
    }
    Ok(())
}

/// Reads one reply. Returns the error that it is, or has in it.
fn read_reply(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let (mut left, mut found) = (1u64, None);
    while left > 0 {
        left -= 1;
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default()).trim_end().to_owned();
        let count = || text.parse::<u64>().unwrap_or(0);
        match line[0] {
            b'-' => drop(found.get_or_insert(text)),
            b'*' => left += count(),
            b'$' if !text.starts_with('-') => {
                io::copy(&mut input.take(count() + 2), &mut io::sink())?;
            }
            _ => {}
        }
    }
    Ok(found)
}
