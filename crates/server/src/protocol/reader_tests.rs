use super::*;
use crate::testing::{Commands, read};
use proptest::prelude::*;

fn whole(text: &[u8]) -> (Commands, Option<String>) {
    read(&[text], Limits::USUAL)
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn multibulk_and_inline() {
    let text = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\nPING\r\n*0\r\n*-1\r\nset a b\n*1\r\n$0\r\n\r\n";
    let expected = vec![words("GET a"), words("PING"), words("set a b"), vec![vec![]]];
    assert_eq!(whole(text), (expected, None));
}

#[test]
fn quotes() {
    let text = b"set \"a\\x41\\n\\\"\" 'it\\'s \\n' \"\"\r\n";
    let expected = vec![b"set".to_vec(), b"aA\n\"".to_vec(), b"it's \\n".to_vec(), vec![]];
    assert_eq!(whole(text), (vec![expected], None));
    let unbalanced = Some("Protocol error: unbalanced quotes in request".to_owned());
    for text in ["set \"a\r\n", "set 'a\r\n", "set \"a\"b\r\n"] {
        assert_eq!(whole(text.as_bytes()), (vec![], unbalanced.clone()));
    }
}

#[test]
fn errors_in_redis_words() {
    for (text, error) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*2147483648\r\n", "invalid multibulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
    ] {
        assert_eq!(whole(text.as_bytes()), (vec![], Some(format!("Protocol error: {error}"))));
    }
    let long = vec![b'a'; LINE + 1];
    let error = |text: &[u8]| whole(text).1.unwrap();
    assert_eq!(error(&long), "Protocol error: too big inline request");
    assert_eq!(
        error(&[b"*".as_slice(), &long].concat()),
        "Protocol error: too big mbulk count string"
    );
    let bulk = [b"*1\r\n$".as_slice(), &long].concat();
    assert_eq!(error(&bulk), "Protocol error: too big bulk count string");
}

#[test]
fn strangers_are_kept_short() {
    let error = |text: &[u8]| read(&[text], Limits::UNAUTHENTICATED).1.unwrap();
    assert_eq!(error(b"*11\r\n"), "Protocol error: unauthenticated multibulk length");
    assert_eq!(error(b"*1\r\n$16385\r\n"), "Protocol error: unauthenticated bulk length");
    // All that these allow is less than a request may have.
    let most =
        [b"*10\r\n".to_vec(), [b"$16384\r\n", &*vec![b'x'; 16384], b"\r\n"].concat().repeat(10)];
    assert_eq!(read(&[&most.concat()], Limits::UNAUTHENTICATED).1, None);
}

#[test]
fn a_request_that_says_that_it_is_too_large_is_refused_at_once() {
    let limits = Limits { request: 1000, ..Limits::USUAL };
    let error = |text: &[u8]| read(&[text], limits);
    let refused = Some("Protocol error: too big request".to_owned());
    assert_eq!(
        error(b"PING\r\n*2\r\n$3\r\nGET\r\n$1000\r\n"),
        (vec![words("PING")], refused.clone())
    );
    let many = [b"*1000\r\n".to_vec(), b"$1\r\na\r\n".repeat(200)].concat();
    assert_eq!(error(&many), (vec![], refused));
    // Several of them, each of which is small enough.
    let text = [b"*1\r\n$900\r\n".as_slice(), &[b'x'; 900], b"\r\n"].concat().repeat(3);
    assert_eq!(error(&text), (vec![vec![vec![b'x'; 900]]; 3], None));
}

#[test]
fn many_arguments_are_counted() {
    // As many as Redis takes, up to the bytes of a request: here they take 16 each, from the millionth on.
    let count = FREE + 1000;
    let text = [format!("*{count}\r\n").into_bytes(), b"$1\r\na\r\n".repeat(count)].concat();
    let limits = |request| Limits { request, ..Limits::USUAL };
    let (requests, error) = read(&[&text], limits(text.len() + 16 * 1000));
    assert_eq!((requests.len(), requests[0].len(), error), (1, count, None));
    let refused = Some("Protocol error: too big request".to_owned());
    assert_eq!(read(&[&text], limits(text.len() + 15 * 1000)), (vec![], refused));
}

#[test]
fn a_buffer_is_not_much_larger_than_what_arrived() {
    let mut reader = RequestReader::default();
    let len = 8 << 20;
    let text = [format!("*1\r\n${len}\r\n").as_bytes(), &vec![b'x'; len + 2]].concat();
    let mut most = 0;
    for piece in text.chunks(CHUNK) {
        reader.fill(&mut &*piece).unwrap();
        most = most.max(reader.buffer.capacity() - reader.filled);
        if reader.filled < text.len() {
            assert_eq!(reader.next(Limits::USUAL), Ok(None));
        }
    }
    assert!(most < len / 4 + 2 * CHUNK, "{most}");
    assert!(reader.buffer.capacity() < len + 3 * CHUNK);
    assert!(reader.next(Limits::USUAL).unwrap().is_some());
    reader.rest();
    assert!(reader.buffer.capacity() >= len, "a request that is not released needs its bytes");
    reader.release();
    assert!(reader.buffer.capacity() <= KEEP);
    reader.rest();
    assert_eq!(reader.buffer.capacity(), 0);
}

#[test]
fn a_client_s_word_reserves_nothing() {
    let mut reader = RequestReader::default();
    reader.fill(&mut &b"*1000000\r\n$536870912\r\nabc"[..]).unwrap();
    assert_eq!(reader.next(Limits::USUAL), Ok(None));
    assert!(reader.buffer.len() <= 2 * CHUNK && reader.spans.capacity() < 64);
}

#[test]
fn a_large_argument_in_small_pieces() {
    let value = vec![b'v'; 3 << 20];
    let text = [b"*2\r\n$1\r\na\r\n$3145728\r\n".as_slice(), &value, b"\r\n"].concat();
    let pieces: Vec<&[u8]> = text.chunks(1000).collect();
    let (commands, error) = read(&pieces, Limits::USUAL);
    assert_eq!((commands[0][1] == value, error), (true, None));
}

/// One command, as a client would send it.
fn command() -> impl Strategy<Value = (Vec<Vec<u8>>, bool)> {
    let argument = prop::collection::vec(any::<u8>(), 0..40);
    (prop::collection::vec(argument, 1..6), any::<bool>())
}

fn encode(command: &[Vec<u8>], inline: bool) -> Vec<u8> {
    let mut text = Vec::new();
    if inline {
        for argument in command {
            text.push(b'"');
            for byte in argument {
                text.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            text.extend_from_slice(b"\" ");
        }
    } else {
        text.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for argument in command {
            text.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            text.extend_from_slice(argument);
            text.extend_from_slice(b"\r\n");
        }
        text.truncate(text.len() - 2);
    }
    text.extend_from_slice(b"\r\n");
    text
}

fn pieces_of<'a>(text: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        commands in prop::collection::vec(command(), 0..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text: Vec<u8> = commands.iter().flat_map(|(c, inline)| encode(c, *inline)).collect();
        let expected: Commands = commands.into_iter().map(|(command, _)| command).collect();
        prop_assert_eq!(read(&pieces_of(&text, &cuts), Limits::USUAL), (expected, None));
    }

    #[test]
    fn garbage_is_read_the_same_in_any_pieces(
        text in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"*$\r\n\r\n0123\"' \\x".to_vec())], 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        prop_assert_eq!(read(&pieces_of(&text, &cuts), Limits::USUAL), whole(&text));
    }
}

#[test]
fn unusual_numbers_are_left_to_the_careful_reader() {
    for (line, number) in [
        ("*0\r\n", Some((0, 4))),
        ("*7\r\n", Some((7, 4))),
        ("*123456789\r\n", Some((123_456_789, 12))),
        ("*1234567890\r\n", None),
        ("*01\r\n", None),
        ("*-1\r\n", None),
        ("*1 \r\n", None),
        ("*1\r", None),
        ("*1\r*", None),
        ("*\r\n", None),
        ("*", None),
        ("", None),
        ("$1\r\n", None),
    ] {
        assert_eq!(announcement(line.as_bytes(), 0, b'*'), number, "{line:?}");
    }
}
