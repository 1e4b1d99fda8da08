//! Implements a minimal client for the simple query protocol of Postgres. It does not use the SQL library of
//! the program under test, and it needs no password because the server trusts every connection.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Protocol version 3.0, with the major version in the upper 16 bits.
const PROTOCOL_VERSION: i32 = 3 << 16;

/// Executes SQL statements and returns the rows of all of them, each column as text.
pub(super) async fn execute_simple_query(port: u16, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    let hello = frame_message(&[&PROTOCOL_VERSION.to_be_bytes(), b"user\0retro\0database\0postgres\0\0"]);
    stream.write_all(&hello).await.expect("the server reads");
    read_until_ready(&mut stream).await;
    let mut query = vec![b'Q'];
    query.extend(frame_message(&[sql.as_bytes(), b"\0"]));
    stream.write_all(&query).await.expect("the server reads");
    read_until_ready(&mut stream).await
}

/// Concatenates the parts and prefixes them with a four-byte length, which includes its own four bytes.
fn frame_message(parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    let length = i32::try_from(bytes.len() + 4).expect("a message fits");
    [length.to_be_bytes().as_slice(), &bytes].concat()
}

async fn read_until_ready(stream: &mut TcpStream) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    loop {
        let kind = stream.read_u8().await.expect("the server answers");
        let length = stream.read_i32().await.expect("the server answers");
        // The length includes its own four bytes.
        let mut body = vec![0; usize::try_from(length).expect("a length") - 4];
        stream.read_exact(&mut body).await.expect("the server answers");
        match kind {
            b'Z' => return rows,
            b'D' => rows.push(parse_columns(&body)),
            b'E' => panic!(
                "Postgres rejected the statement: {}",
                String::from_utf8_lossy(&body).replace('\0', " ")
            ),
            _ => {}
        }
    }
}

fn parse_columns(row: &[u8]) -> Vec<Option<String>> {
    let (count, mut rest) = row.split_at(2);
    let mut columns = Vec::new();
    for _ in 0..i16::from_be_bytes([count[0], count[1]]) {
        let (length, after) = rest.split_at(4);
        // A length of -1 means NULL.
        let length = usize::try_from(i32::from_be_bytes([length[0], length[1], length[2], length[3]]));
        let (value, after) = after.split_at(length.unwrap_or_default());
        columns.push(length.is_ok().then(|| String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    columns
}
