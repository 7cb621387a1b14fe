//! A request's arguments: spans of the buffer that it was read into, never copies.

use std::ops::Index;

/// Where an argument lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Span {
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Span { start, len }
    }

    fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.start + self.len]
    }
}

/// The arguments of one request, the command's name first.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    buffer: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    pub(crate) fn new(buffer: &'a [u8], spans: &'a [Span]) -> Self {
        Args { buffer, spans }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.buffer))
    }

    /// The argument at `index`, which exists: an arity was checked before.
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.buffer)
    }

    /// The arguments from `first` on.
    pub(crate) fn from(&self, first: usize) -> Args<'a> {
        Args { buffer: self.buffer, spans: &self.spans[first.min(self.spans.len())..] }
    }

    /// At most `len` arguments from `first` on.
    pub(crate) fn first(&self, first: usize, len: usize) -> Args<'a> {
        let rest = self.from(first);
        Args { spans: &rest.spans[..len.min(rest.len())], ..rest }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        self.spans.iter().map(move |span| span.of(buffer))
    }

    /// Whether the argument at `index` is `word` (given in lower case), in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Whether each argument stands alone between line breaks, as in a request that says how long they are.
    pub(crate) fn is_framed(&self) -> bool {
        self.spans.iter().all(|span| {
            let (start, end) = (span.start, span.start + span.len);
            let before = start.checked_sub(2).and_then(|from| self.buffer.get(from..start));
            before == Some(b"\r\n") && self.buffer.get(end..end + 2) == Some(b"\r\n")
        })
    }

    /// Bytes of all arguments together.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

/// Arguments that own their bytes, for MULTI's queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedArgs {
    buffer: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// Adds an argument.
    pub(crate) fn push(&mut self, arg: &[u8]) {
        self.spans.push(Span::new(self.buffer.len(), arg.len()));
        self.buffer.extend_from_slice(arg);
    }

    pub(crate) fn as_args(&self) -> Args<'_> {
        Args::new(&self.buffer, &self.spans)
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        // A queue of them is bounded by their bytes: no more is reserved.
        let mut owned = OwnedArgs {
            buffer: Vec::with_capacity(args.bytes()),
            spans: Vec::with_capacity(args.len()),
        };
        args.iter().for_each(|arg| owned.push(arg));
        owned
    }
}

impl<'a> FromIterator<&'a [u8]> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(args: I) -> Self {
        let mut owned = OwnedArgs::default();
        for arg in args {
            owned.push(arg);
        }
        owned
    }
}
