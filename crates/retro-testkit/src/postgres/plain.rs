//! The simple query protocol of Postgres, spoken by hand: statements beside the program, and past the library that it
//! uses. The server trusts everybody.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Version 3.0.
const PROTOCOL: i32 = 3 << 16;

/// Carries out statements; returns every row that any of them answers with.
pub(super) async fn run(port: u16, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    let hello = message(&[&PROTOCOL.to_be_bytes(), b"user\0retro\0database\0postgres\0\0"]);
    stream.write_all(&hello).await.expect("the server reads");
    until_ready(&mut stream).await;
    let mut query = vec![b'Q'];
    query.extend(message(&[sql.as_bytes(), b"\0"]));
    stream.write_all(&query).await.expect("the server reads");
    until_ready(&mut stream).await
}

/// Its parts behind their length, which counts itself.
fn message(parts: &[&[u8]]) -> Vec<u8> {
    let bytes = parts.concat();
    let length = i32::try_from(bytes.len() + 4).expect("a message fits");
    [length.to_be_bytes().as_slice(), &bytes].concat()
}

async fn until_ready(stream: &mut TcpStream) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    loop {
        let kind = stream.read_u8().await.expect("the server answers");
        let length = stream.read_i32().await.expect("the server answers");
        let mut body = vec![0; usize::try_from(length).expect("a length") - 4];
        stream.read_exact(&mut body).await.expect("the server answers");
        match kind {
            b'Z' => return rows,
            b'D' => rows.push(columns(&body)),
            b'E' => panic!("Postgres refuses it: {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            _ => {}
        }
    }
}

fn columns(row: &[u8]) -> Vec<Option<String>> {
    let (count, mut rest) = row.split_at(2);
    let mut columns = Vec::new();
    for _ in 0..i16::from_be_bytes([count[0], count[1]]) {
        let (length, after) = rest.split_at(4);
        // -1: NULL.
        let length = usize::try_from(i32::from_be_bytes([length[0], length[1], length[2], length[3]]));
        let (value, after) = after.split_at(length.unwrap_or_default());
        columns.push(length.is_ok().then(|| String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    columns
}
