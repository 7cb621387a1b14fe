//! What MIGRATE asks for.

use crate::command::Failure;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Protocol, number};
use crate::waiting::Address;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// How long a target may take if the request does not say.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of memory that a request takes besides its arguments, and each argument besides its own.
const PER_REQUEST: usize = 500;
const PER_ARGUMENT: usize = 24;

/// Who is to be let in at the target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Vec<u8>,
}

/// A client's request.
#[derive(Debug)]
pub(crate) struct Move {
    /// Where the answer goes.
    pub(crate) to: Address,
    pub(crate) protocol: Protocol,
    pub(crate) db: u8,
    pub(crate) host: Vec<u8>,
    pub(crate) port: Vec<u8>,
    pub(crate) target_db: i64,
    /// How long the target may take for each step.
    pub(crate) timeout: Duration,
    /// Whether keys stay here as well.
    pub(crate) copies: bool,
    /// Whether keys of the target are replaced.
    pub(crate) replaces: bool,
    pub(crate) login: Option<Login>,
    args: OwnedArgs,
    keys: Range<usize>,
}

impl Move {
    /// Reads a request, of the database `db`.
    pub(crate) fn parse(
        args: Args<'_>,
        to: Address,
        protocol: Protocol,
        db: u8,
    ) -> Result<Self, Failure> {
        let (mut copies, mut replaces, mut login, mut keys) = (false, false, None, 3..4);
        let mut at = 6;
        while at < args.len() {
            let more = args.len() - at - 1;
            match () {
                () if args.is(at, "copy") => copies = true,
                () if args.is(at, "replace") => replaces = true,
                () if args.is(at, "auth") && more >= 1 => {
                    login = Some(Login { user: None, password: args.at(at + 1).to_vec() });
                    at += 1;
                }
                () if args.is(at, "auth2") && more >= 2 => {
                    let user = Some(args.at(at + 1).to_vec());
                    login = Some(Login { user, password: args.at(at + 2).to_vec() });
                    at += 2;
                }
                () if args.is(at, "keys") => {
                    if !args.at(3).is_empty() {
                        let text = "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                                    empty string";
                        return Err(Failure::Say(text.into()));
                    }
                    keys = at + 1..args.len();
                    break;
                }
                () => return Err(Failure::SYNTAX),
            }
            at += 1;
        }
        let millis = number::parse_i64(args.at(5)).ok_or(Failure::NOT_INTEGER)?;
        let target_db = number::parse_i64(args.at(4)).ok_or(Failure::NOT_INTEGER)?;
        let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0);
        Ok(Move {
            to,
            protocol,
            db,
            host: args.at(1).to_vec(),
            port: args.at(2).to_vec(),
            target_db,
            timeout: millis.map_or(TIMEOUT, Duration::from_millis),
            copies,
            replaces,
            login,
            args: OwnedArgs::from(args),
            keys,
        })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let args = self.args.as_args();
        // Some arguments are there twice.
        let login = self.login.as_ref();
        let twice =
            login.map_or(0, |one| one.password.len() + one.user.as_ref().map_or(0, Vec::len));
        let twice = twice + self.host.len() + self.port.len();
        args.bytes() + args.len() * PER_ARGUMENT + twice + PER_REQUEST
    }

    /// Its keys, each once.
    pub(crate) fn keys(&self) -> Vec<&[u8]> {
        let (Range { start, end }, mut known) = (self.keys.clone(), HashSet::new());
        let keys = self.args.as_args().first(start, end - start);
        keys.iter().filter(|key| known.insert(*key)).collect()
    }
}
