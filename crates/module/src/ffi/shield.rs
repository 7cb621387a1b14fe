//! Clients that have not read their replies of earlier turns.
//!
//! The host sends the rest of such replies when the client's socket takes more, within a turn of its event loop, and with
//! them the replies of this turn, whose transactions are not durable yet. Its API has no means against that. So the
//! module takes the client's socket away until the turn's end: its descriptor stands for another socket, which takes no
//! byte, as if the client still did not read.
//!
//! The host waits for the client's socket itself, which stays open: so it goes on as before when its descriptor has it again.

use super::api::{self, RawContext};
use super::{log_once, with};
use crate::node::Node;
use rustix::fs::fstat;
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use std::cell::RefCell;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// A socket that takes no byte, and has none.
struct Full {
    socket: UnixStream,
    /// The other end, which nobody reads.
    _end: UnixStream,
    /// What tells it from others: device and inode.
    id: (u64, u64),
}

impl Full {
    fn new() -> io::Result<Self> {
        let (mut socket, end) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        // The end of it takes single bytes after large pieces have failed.
        for size in [1 << 16, 1] {
            while socket.write(&vec![0; size]).is_ok() {}
        }
        let id = identity(socket.as_fd())?;
        Ok(Full { socket, _end: end, id })
    }
}

fn identity(descriptor: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = fstat(descriptor)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Descriptors of clients that have the full socket, and the clients' sockets.
#[derive(Default)]
struct Shields {
    full: Option<Full>,
    held: Vec<(RawFd, OwnedFd)>,
}

thread_local! {
    static SHIELDS: RefCell<Shields> = RefCell::default();
}

impl Shields {
    fn hold(&mut self, descriptor: RawFd) -> io::Result<()> {
        if self.held.iter().any(|(held, _)| *held == descriptor) {
            return Ok(());
        }
        if self.full.is_none() {
            self.full = Some(Full::new()?);
        }
        let Some(full) = &self.full else { return Ok(()) };
        // SAFETY: the host has just said that a client has it, and runs nothing else meanwhile.
        let own = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let kept = fcntl_dupfd_cloexec(own, 0)?;
        assign(full.socket.as_fd(), descriptor)?;
        self.held.push((descriptor, kept));
        Ok(())
    }

    fn lift(&mut self) -> io::Result<()> {
        let Some(full) = &self.full else { return Ok(()) };
        for (descriptor, kept) in self.held.drain(..) {
            // SAFETY: only looked at; an error if it is closed.
            let now = identity(unsafe { BorrowedFd::borrow_raw(descriptor) });
            // If the host has closed it, its number may be another client's.
            if now.is_ok_and(|now| now == full.id) {
                assign(kept.as_fd(), descriptor)?;
            }
        }
        Ok(())
    }
}

/// Makes a descriptor of the host's stand for another socket.
fn assign(socket: BorrowedFd<'_>, descriptor: RawFd) -> io::Result<()> {
    // SAFETY: it is open, and stays the host's: it is not closed here.
    let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(dup3(socket, &mut target, DupFlags::CLOEXEC)?)
}

/// A command is about to be performed for a client; `None` if it is not known for which. Returns when the host can send
/// its reply only after the turn's end, or when all that it may tell is durable.
pub(super) fn raise(context: RawContext, client: Option<u64>, writes: bool) {
    if !with(|node| Ok(node.meets(client, writes))) {
        return;
    }
    let lines = api::clients(context, client);
    let held = match &lines {
        Some(lines) => SHIELDS.with_borrow_mut(|shields| {
            lines.lines().filter_map(unread).try_for_each(|descriptor| shields.hold(descriptor))
        }),
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    if let Err(error) = held {
        log_once(&format!(
            "a client does not read its replies, and its socket cannot be set aside ({error}): commands of this turn \
             become durable one by one, those of an EXEC too"
        ));
        with(|node| node.expose());
    }
}

/// The descriptor of a client that has not read all replies, in a line of CLIENT LIST.
fn unread(line: &str) -> Option<RawFd> {
    let field = |name: &str| line.split(' ').find_map(|part| part.strip_prefix(name));
    match field("events=")?.contains('w') {
        true => field("fd=")?.parse().ok().filter(|descriptor| *descriptor >= 0),
        false => None,
    }
}

/// Gives clients their sockets back within a turn, when all that they may be told is durable.
pub(super) fn lower() {
    if SHIELDS.with_borrow(|shields| !shields.held.is_empty()) {
        with(Node::make_durable);
        lift();
    }
}

/// The turn is over: the host may send what it has.
pub(super) fn lift() {
    if let Err(error) = SHIELDS.with_borrow_mut(Shields::lift) {
        super::die(&format!("a client's socket cannot be given back: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn a_held_socket_takes_nothing_until_it_is_given_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        let mut shields = Shields::default();
        for round in 0..3 {
            shields.hold(server.as_raw_fd()).unwrap();
            shields.hold(server.as_raw_fd()).unwrap();
            assert_eq!(server.write(b"a").unwrap_err().kind(), io::ErrorKind::WouldBlock);
            assert_eq!(server.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            shields.lift().unwrap();
            server.write_all(&[round]).unwrap();
            let mut byte = [9];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
        }
        // One that is closed meanwhile, and whose number is given to another: that stays as it is, and the peer hears.
        let number = server.into_raw_fd();
        shields.hold(number).unwrap();
        // SAFETY: it was this test's.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
        let (other, mut end) = UnixStream::pair().unwrap();
        shields.lift().unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        (&other).write_all(b"b").unwrap();
        end.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn lines_of_clients_are_read() {
        let line = "id=3 addr=127.0.0.1:1 laddr=127.0.0.1:2 fd=8 name= age=0 events=rw cmd=get";
        assert_eq!(unread(line), Some(8));
        assert_eq!(unread(&line.replace("=rw", "=r")), None);
        assert_eq!(unread(&line.replace("fd=8", "fd=-1")), None);
        assert_eq!(unread(""), None);
    }
}
