//! Writes PNG files: eight bits a channel, red, green and blue.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::canvas::Canvas;

pub(super) fn encode(canvas: &Canvas) -> io::Result<Vec<u8>> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = Vec::new();
    for size in [canvas.width, canvas.height] {
        header.extend(u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    }
    // Eight bits a channel, colours, and the only kinds of compression, filters and order that are usual.
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut file, b"IHDR", &header);
    let mut data = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in canvas.pixels.chunks(canvas.width.max(1) * 3) {
        // The row's filter: none. Rows of boxes compress well without one.
        data.write_all(&[0])?;
        data.write_all(row)?;
    }
    chunk(&mut file, b"IDAT", &data.finish()?);
    chunk(&mut file, b"IEND", &[]);
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    file.extend(kind);
    file.extend(data);
    file.extend(sum.sum().to_be_bytes());
}
