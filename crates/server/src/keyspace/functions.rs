//! Libraries of functions in Lua: their code, and which functions they have. Clients load them, and they stay.
//!
//! A word of the header leads to a block: `0xF0C5 << 48`, the ordered map of libraries by name, the ordered map of
//! functions by name, in lower case. A library's value leads to a block: `0x11B4 << 48`, the digest of its code in 40
//! digits, the blob of its code. A function's value: its flags, whether it has a description, the lengths of its name and of
//! its library's (four bytes each), both names, the description.

use super::Short;
use super::header::{self, FUNCTIONS};
use crate::script::Digest;
use perdura::collections::{Blob, Bytes, OrderedMap, Visit};
use perdura::{Error, Purpose, Result, Tx};

const TAG: u64 = 0xF0C5 << 48;
const LIBRARY: u64 = 0x11B4 << 48;
/// Places in a library's block.
const DIGEST: u64 = 8;
const CODE: u64 = 48;
/// Bytes of a function's value before the names.
const HEAD: usize = 10;

type LibraryMap = OrderedMap<Short, u64>;
type FunctionMap = OrderedMap<Short, Bytes<2>>;

/// The libraries of a keyspace: a handle to them.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    libraries: LibraryMap,
    functions: FunctionMap,
}

/// A library: a handle to it.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) digest: Digest,
    code: Blob,
}

impl Library {
    /// Its code, the first line included.
    pub(crate) fn code(self, tx: &mut dyn Tx) -> Result<Vec<u8>> {
        self.code.read(tx)
    }
}

/// Called with a library and its name in a transaction.
pub(crate) type EachLibrary<'a, E> = dyn FnMut(&mut dyn Tx, Vec<u8>, Library) -> Result<(), E> + 'a;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: u8,
}

impl FunctionEntry {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.flags, u8::from(self.description.is_some())];
        for name in [&self.name, &self.library] {
            bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&self.library);
        bytes.extend_from_slice(self.description.as_deref().unwrap_or_default());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let len = |at: usize| Some(u32::from_le_bytes(head[at..at + 4].try_into().ok()?) as usize);
        let (name, rest) = rest.split_at_checked(len(2)?)?;
        let (library, description) = rest.split_at_checked(len(6)?)?;
        Some(FunctionEntry {
            name: name.to_vec(),
            library: library.to_vec(),
            description: (head[1] != 0).then(|| description.to_vec()),
            flags: head[0],
        })
    }
}

impl Functions {
    fn at(tx: &mut dyn Tx, at: u64) -> Result<Self> {
        let mut words = [0; 3];
        tx.read_words(at, &mut words).map_err(Error::in_pool)?;
        if words[0] != TAG {
            return Err(Error::corrupt("the libraries of functions", at));
        }
        Ok(Functions {
            libraries: LibraryMap::new(words[1]),
            functions: FunctionMap::new(words[2]),
        })
    }

    /// Those of the keyspace at `header`, if it ever had one.
    pub(crate) fn find(tx: &mut dyn Tx, header: u64) -> Result<Option<Self>> {
        if !header::has_functions(tx, header)? {
            return Ok(None);
        }
        match tx.read_word(header + FUNCTIONS)? {
            0 => Ok(None),
            at => Self::at(tx, at).map(Some),
        }
    }

    /// Those of the keyspace at `header`, to be changed; `None` if the pool is of an old format, since it was full.
    pub(crate) fn make(tx: &mut dyn Tx, header: u64) -> Result<Option<Self>> {
        if !header::has_functions(tx, header)? {
            return Ok(None);
        }
        if let Some(functions) = Self::find(tx, header)? {
            return Ok(Some(functions));
        }
        let (libraries, functions) = (LibraryMap::create(tx)?, FunctionMap::create(tx)?);
        let new = tx.allocate(Purpose::General, 24)?;
        let words = [TAG, libraries.at(), functions.at()];
        tx.write_fresh(new, 0, bytemuck::bytes_of(&words))?;
        tx.write_word(header + FUNCTIONS, new.at())?;
        Ok(Some(Functions { libraries, functions }))
    }

    fn library_at(tx: &mut dyn Tx, at: u64) -> Result<Library> {
        let mut digest = [0; 40];
        if tx.read_word(at).map_err(Error::in_pool)? != LIBRARY {
            return Err(Error::corrupt("a library of functions", at));
        }
        tx.read_bytes(at + DIGEST, &mut digest)?;
        Ok(Library { digest, code: Blob::new(tx.read_word(at + CODE)?) })
    }

    /// The library of this name.
    pub(crate) fn library(self, tx: &mut dyn Tx, name: &[u8]) -> Result<Option<Library>> {
        match self.libraries.get(tx, name)? {
            Some(at) => Self::library_at(tx, at).map(Some),
            None => Ok(None),
        }
    }

    /// The function of this name, in any case.
    pub(crate) fn function(self, tx: &mut dyn Tx, name: &[u8]) -> Result<Option<FunctionEntry>> {
        let name = name.to_ascii_lowercase();
        match self.functions.get(tx, &name)? {
            Some(bytes) => FunctionEntry::decode(&bytes).map(Some).ok_or_else(|| damaged(self)),
            None => Ok(None),
        }
    }

    /// Calls `each` with every library and its name, in the order of names.
    pub(crate) fn each_library<E: From<Error>>(
        self,
        tx: &mut dyn Tx,
        each: &mut EachLibrary<'_, E>,
    ) -> Result<(), E> {
        let mut cursor = self.libraries.cursor(tx, ..)?;
        while let Some((name, at)) = cursor.next(tx)? {
            let library = Self::library_at(tx, at)?;
            each(tx, name, library)?;
        }
        Ok(())
    }

    /// All functions, in the order of their names.
    pub(crate) fn all(self, tx: &mut dyn Tx) -> Result<Vec<FunctionEntry>> {
        let mut all = Vec::new();
        self.functions.for_each(tx, &mut |_, bytes| {
            all.push(FunctionEntry::decode(&bytes).ok_or_else(|| damaged(self))?);
            Ok(())
        })?;
        Ok(all)
    }

    /// How many libraries there are, and functions.
    pub(crate) fn counts(self, tx: &mut dyn Tx) -> Result<(u64, u64)> {
        Ok((self.libraries.len(tx)?, self.functions.len(tx)?))
    }

    /// Adds a library whose name no other has, with its functions, whose names no others have.
    pub(crate) fn add(
        self,
        tx: &mut dyn Tx,
        name: &[u8],
        (digest, code): (&Digest, &[u8]),
        functions: &[FunctionEntry],
    ) -> Result<()> {
        let code = Blob::create(tx, Purpose::Value, code)?;
        let new = tx.allocate(Purpose::General, CODE + 8)?;
        tx.write_fresh(new, 0, &LIBRARY.to_le_bytes())?;
        tx.write_fresh(new, DIGEST, digest)?;
        tx.write_fresh(new, CODE, &code.at().to_le_bytes())?;
        self.libraries.set(tx, name, new.at())?;
        for function in functions {
            let key = function.name.to_ascii_lowercase();
            self.functions.set(tx, &key, &function.encode())?;
        }
        Ok(())
    }

    /// Removes a library and its functions. Returns whether it was there.
    pub(crate) fn remove(self, tx: &mut dyn Tx, name: &[u8]) -> Result<bool> {
        let Some(at) = self.libraries.remove(tx, name)? else { return Ok(false) };
        Self::library_at(tx, at)?.code.free(tx)?;
        tx.free(at)?;
        for function in self.all(tx)?.into_iter().filter(|function| function.library == name) {
            self.functions.remove(tx, &function.name.to_ascii_lowercase())?;
        }
        Ok(true)
    }

    /// Removes all libraries.
    pub(crate) fn clear(self, tx: &mut dyn Tx) -> Result<()> {
        while let Some((_, at)) = self.libraries.first(tx)? {
            Self::library_at(tx, at)?.code.free(tx)?;
            tx.free(at)?;
            let Some((name, _)) = self.libraries.first(tx)? else { break };
            self.libraries.remove(tx, &name)?;
        }
        self.functions.clear(tx)
    }
}

const fn damaged(functions: Functions) -> Error {
    Error::corrupt("a function of a library", functions.functions.at())
}

/// Checks the libraries, and reports their blocks.
pub(super) fn check(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<()> {
    let Some(functions) = Functions::find(tx, header)? else { return Ok(()) };
    let at = tx.read_word(header + FUNCTIONS)?;
    visit(at)?;
    functions.libraries.check(tx, visit)?;
    functions.functions.check(tx, visit)?;
    let mut cursor = functions.libraries.cursor(tx, ..)?;
    while let Some((_, at)) = cursor.next(tx)? {
        visit(at)?;
        let library = Functions::library_at(tx, at)?;
        library.code.check(tx, visit)?;
    }
    for function in functions.all(tx)? {
        if !functions.libraries.contains(tx, &function.library)? {
            return Err(Error::corrupt("a function without a library", at));
        }
    }
    Ok(())
}
