//! zstd as a stream of frames: files are often several frames one after the other (`pzstd`, `cat a.zst b.zst`),
//! with skippable ones between them, while the decoder knows one frame. Checksums are compared.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, Read};

/// Windows larger than this are refused: 128 MiB, what the command line tool accepts without being asked to.
const WINDOW_MAX: u64 = 128 << 20;

/// Whether a trace beginning so is zstd.
pub(crate) fn is_zstd(magic: &[u8]) -> bool {
    matches!(magic, [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// The decompressed bytes of `source`.
pub(crate) struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: Read> Zstd<R> {
    pub(crate) fn new(source: R) -> Zstd<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        Zstd { source, decoder, within: false }
    }

    /// Begins the next frame; false if there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            let mut magic = [0; 4];
            match self.source.read(&mut magic[..1])? {
                0 => return Ok(false),
                _ => self.source.read_exact(&mut magic[1..])?,
            }
            if let [0x50..=0x5f, 0x2a, 0x4d, 0x18] = magic {
                let mut size = [0; 4];
                self.source.read_exact(&mut size)?;
                let size = u64::from(u32::from_le_bytes(size));
                let skipped = io::copy(&mut (&mut self.source).take(size), &mut io::sink())?;
                if skipped < size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            let frame = (&magic[..]).chain(&mut self.source);
            self.decoder.init(frame).map_err(io::Error::other)?;
            self.within = true;
            return Ok(true);
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.within = false;
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(io::Error::other("zstd: the checksum does not match; the file is damaged"));
        }
        Ok(())
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within && !self.next_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            }
            match self.decoder.read(buffer)? {
                0 if buffer.is_empty() => return Ok(0),
                0 => self.end_frame()?,
                n => return Ok(n),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with the command line tool: a frame of 600 lines with a checksum, a skippable one of 5 bytes, and one of
    /// 400 lines without.
    const FRAMES: &[u8] = include_bytes!("../tests/data/two-frames.csv.zst");
    /// Length of the first.
    const FIRST: usize = 4924;

    fn unpacked(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        Zstd::new(bytes).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn frames_follow_each_other_and_skippable_ones_are_skipped() {
        let text = unpacked(FRAMES).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1000);
        assert!(lines.iter().all(|l| l.split(',').count() == 7));
        assert!(
            lines[599].starts_with("128166372000599000,")
                && lines[600].starts_with("128166372000600000,")
        );
        assert_eq!(unpacked(&FRAMES[..FIRST]).unwrap().lines().count(), 600);
    }

    #[test]
    fn a_damaged_or_cut_file_is_an_error() {
        // The checksum stands at the end of its frame.
        let mut damaged = FRAMES.to_vec();
        damaged[FIRST - 1] ^= 1;
        let error = unpacked(&damaged).unwrap_err().to_string();
        assert!(error.contains("checksum does not match"), "{error}");
        for length in [1, 3, 10, FIRST - 1, FIRST + 6, FRAMES.len() - 1] {
            assert!(unpacked(&FRAMES[..length]).is_err(), "cut at {length}");
        }
    }
}
