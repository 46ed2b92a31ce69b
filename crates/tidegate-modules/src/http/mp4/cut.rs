//! Makes a part of a video into a video of its own: takes the bytes of the index and returns those of a new one.

use super::boxes::{BoxType, Child, Children, Mp4Error, Table, be32, be64, need};
use super::track::{Track, Window};

/// The requested part, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedPart {
    pub start: u64,
    /// Duration from `start` on; `None` for "to the end".
    pub length: Option<u64>,
    /// Whether each track begins at a key sample and hides what is before `start` (`mp4_start_key_frame`).
    pub key_frame: bool,
}

/// The same in ticks of a time scale.
pub(super) struct Duration {
    pub start: u64,
    pub length: Option<u64>,
}

/// The boxes of a file.
pub(super) struct Movie<'a> {
    /// The whole `ftyp` box, or nothing.
    pub ftyp: &'a [u8],
    /// The contents of the `moov` box.
    pub moov: &'a [u8],
    /// Offsets of begin and end of the contents of the `mdat` box in the file.
    pub mdat: (u64, u64),
}

/// A new beginning, and the part of the file that follows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MoviePart {
    pub head: Vec<u8>,
    pub start: u64,
    pub length: u64,
}

impl RequestedPart {
    /// Converts to ticks, `timescale` of which are a second.
    pub(super) fn in_ticks(&self, timescale: u32) -> Duration {
        let ticks = |time: u64| {
            let ticks = u128::from(time) * u128::from(timescale) / 1000;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        Duration { start: ticks(self.start), length: self.length.map(ticks) }
    }

    fn shorten(&self, duration: u64, timescale: u32) -> u64 {
        let Duration { start, length } = self.in_ticks(timescale);
        duration.saturating_sub(start).min(length.unwrap_or(u64::MAX))
    }
}

/// Cuts a video.
///
/// # Errors
/// The index is malformed, or no track has a sample at that time.
pub(super) fn cut(movie: &Movie<'_>, cut: &RequestedPart) -> Result<MoviePart, Mp4Error> {
    let header = need(movie.moov, *b"mvhd")?;
    let scales = TimeScales::parse(header, *b"mvhd")?;
    let (at, long) = MOVIE.place(header);
    let duration = read(header, at, long).ok_or(Mp4Error::TooSmall(*b"mvhd"))?;
    if cut.start > 0 && cut.in_ticks(scales.timescale).start >= duration {
        return Err(Mp4Error::Exceeds);
    }
    let mut writer = Writer {
        out: movie.ftyp.to_vec(),
        cut: *cut,
        movie: scales,
        chunks: Vec::new(),
        kept: Vec::new(),
    };
    let moov = writer.begin(*b"moov");
    let mut tracks = false;
    for child in Children(movie.moov) {
        let child = child?;
        match &child.kind {
            b"mvhd" => writer.clock(&child, MOVIE, 0)?,
            b"trak" => {
                tracks = true;
                writer.track(&child)?;
            }
            _ => {}
        }
    }
    writer.end(moov, *b"moov")?;
    if writer.kept.is_empty() {
        return Err(if tracks { Mp4Error::NoData } else { Mp4Error::Missing(*b"trak") });
    }
    writer.finish(movie.mdat)
}

/// The new index while it is made.
struct Writer {
    out: Vec<u8>,
    cut: RequestedPart,
    movie: TimeScales,
    /// Chunk offset tables in `out`: offset of the first row, and bytes of a row. Their values are adjusted when
    /// the size of the index is known.
    chunks: Vec<(usize, usize)>,
    kept: Vec<Window>,
}

impl Writer {
    fn track(&mut self, trak: &Child<'_>) -> Result<(), Mp4Error> {
        let mdia = need(trak.content, *b"mdia")?;
        let clock = TimeScales::parse(need(mdia, *b"mdhd")?, *b"mdhd")?;
        let track = Track::parse(need(need(mdia, *b"minf")?, *b"stbl")?)?;
        if let Some(window) = track.window(&self.cut, clock.timescale)? {
            self.container(trak, &track, &window)?;
            self.kept.push(window);
        }
        Ok(())
    }

    /// Writes a container box with those of its boxes that are valid for a part. The depth is bounded: a box is
    /// entered only at its one valid place.
    fn container(
        &mut self,
        parent: &Child<'_>,
        track: &Track<'_>,
        window: &Window,
    ) -> Result<(), Mp4Error> {
        let place = self.begin(parent.kind);
        for child in Children(parent.content) {
            let child = child?;
            match (&parent.kind, &child.kind) {
                (b"trak", b"mdia") | (b"mdia", b"minf") | (b"minf", b"stbl") => {
                    self.container(&child, track, window)?;
                }
                (b"trak", b"tkhd") => self.track_header(&child, window)?,
                (b"mdia", b"mdhd") => self.clock(&child, MEDIA, window.prologue)?,
                (b"mdia", b"hdlr") | (b"stbl", b"stsd") => self.copy(&child),
                (b"minf", b"vmhd" | b"smhd" | b"hmhd" | b"nmhd" | b"sthd" | b"gmhd" | b"dinf") => {
                    self.copy(&child);
                }
                (b"stbl", _) => self.table(&child, track, window)?,
                _ => {}
            }
        }
        self.end(place, parent.kind)
    }

    fn table(
        &mut self,
        child: &Child<'_>,
        track: &Track<'_>,
        window: &Window,
    ) -> Result<(), Mp4Error> {
        let kind = child.kind;
        if !matches!(&kind, b"stts" | b"stss" | b"ctts" | b"stsc" | b"stsz" | b"stco" | b"co64") {
            return Ok(());
        }
        let place = self.begin(kind);
        // Version and flags.
        self.out.extend_from_slice(child.content.get(..4).unwrap_or(&[0; 4]));
        match &kind {
            b"stts" => self.spans(&track.times, window),
            b"ctts" => track.offsets.iter().for_each(|offsets| self.spans(offsets, window)),
            b"stss" => track.keys.iter().for_each(|keys| self.keys(keys, window)),
            b"stsc" => self.runs(&track.runs_of(window)?)?,
            b"stsz" => self.sizes(track, window)?,
            _ => self.chunks(track, window),
        }
        self.end(place, kind)
    }

    /// Writes rows of samples with the same value, without the samples that are left out.
    fn spans(&mut self, table: &Table<'_>, window: &Window) {
        let (count_at, mut rows, mut begin) = (self.out.len(), 0_u32, 0_u64);
        self.number(0);
        for row in table.rows() {
            let end = begin.saturating_add(u64::from(row.number(0)));
            let kept = end.min(window.last).saturating_sub(begin.max(window.first));
            begin = end;
            if kept > 0 {
                rows += 1;
                self.number(u32::try_from(kept).unwrap_or(u32::MAX));
                self.number(row.number(1));
            }
        }
        self.patch(count_at, &rows.to_be_bytes());
    }

    fn keys(&mut self, table: &Table<'_>, window: &Window) {
        let (count_at, mut rows) = (self.out.len(), 0_u32);
        self.number(0);
        for row in table.rows() {
            let key = u64::from(row.number(0));
            if key > window.first && key <= window.last {
                rows += 1;
                self.number(u32::try_from(key - window.first).unwrap_or(u32::MAX));
            }
        }
        self.patch(count_at, &rows.to_be_bytes());
    }

    fn runs(&mut self, runs: &[(u64, u32, u32)]) -> Result<(), Mp4Error> {
        let malformed = |_| Mp4Error::Malformed(*b"stsc");
        self.number(u32::try_from(runs.len()).map_err(malformed)?);
        let mut first = 1_u64;
        for (chunks, samples, description) in runs {
            self.number(u32::try_from(first).map_err(malformed)?);
            self.number(*samples);
            self.number(*description);
            first = first.saturating_add(*chunks);
        }
        Ok(())
    }

    fn sizes(&mut self, track: &Track<'_>, window: &Window) -> Result<(), Mp4Error> {
        self.number(track.uniform_size);
        if track.uniform_size != 0 {
            // As many as the table of times has.
            let last = window.last.min(track.samples());
            let count = u32::try_from(last.saturating_sub(window.first));
            self.number(count.map_err(|_| Mp4Error::Malformed(*b"stts"))?);
            return Ok(());
        }
        let part = track.sizes.part(window.first, window.last);
        self.number(u32::try_from(part.len()).unwrap_or(u32::MAX));
        self.out.extend_from_slice(part.bytes());
        Ok(())
    }

    fn chunks(&mut self, track: &Track<'_>, window: &Window) {
        let part = track.chunks.part(window.first_chunk, window.last_chunk);
        self.number(u32::try_from(part.len()).unwrap_or(u32::MAX));
        self.chunks.push((self.out.len(), track.chunks.width()));
        self.out.extend_from_slice(part.bytes());
    }

    /// Writes a track's header, and behind it the edit list that hides the beginning of the track.
    fn track_header(&mut self, child: &Child<'_>, window: &Window) -> Result<(), Mp4Error> {
        self.clock(child, TRACK, 0)?;
        if window.prologue == 0 {
            return Ok(());
        }
        let (at, long) = TRACK.place(child.content);
        let duration = read(child.content, at, long).ok_or(Mp4Error::TooSmall(child.kind))?;
        let duration = self.cut.shorten(duration, self.movie.timescale);
        let (edits, list) = (self.begin(*b"edts"), self.begin(*b"elst"));
        // Version 1: 64-bit numbers. One edit, at normal speed.
        self.number(0x0100_0000);
        self.number(1);
        self.out.extend_from_slice(&duration.to_be_bytes());
        self.out.extend_from_slice(&window.prologue.to_be_bytes());
        self.number(0x0001_0000);
        self.end(list, *b"elst")?;
        self.end(edits, *b"edts")
    }

    /// Writes a box with a duration, which becomes that of the part and `longer` ticks more.
    fn clock(
        &mut self,
        child: &Child<'_>,
        form: DurationOffsets,
        longer: u64,
    ) -> Result<(), Mp4Error> {
        let too_small = Mp4Error::TooSmall(child.kind);
        let (at, long) = form.place(child.content);
        let duration = read(child.content, at, long).ok_or(too_small)?;
        let timescale = match form.has_timescale {
            true => TimeScales::parse(child.content, child.kind)?.timescale,
            false => self.movie.timescale,
        };
        let place = self.out.len() + (child.whole.len() - child.content.len()) + at;
        self.copy(child);
        // All ones means that the duration is unknown.
        if duration != if long { u64::MAX } else { u64::from(u32::MAX) } {
            let duration = self.cut.shorten(duration, timescale).saturating_add(longer);
            match long {
                true => self.patch(place, &duration.to_be_bytes()),
                false => {
                    let duration = u32::try_from(duration).unwrap_or(u32::MAX);
                    self.patch(place, &duration.to_be_bytes());
                }
            }
        }
        Ok(())
    }

    /// Puts the header of the media behind the index and adjusts the chunk offsets to their new positions.
    fn finish(mut self, mdat: (u64, u64)) -> Result<MoviePart, Mp4Error> {
        let out_of = Mp4Error::StartOut(*b"mdat");
        let start = self.kept.iter().map(|window| window.start).min().ok_or(out_of)?;
        let end = match self.cut.length {
            None => mdat.1,
            Some(_) => self.kept.iter().filter_map(|window| window.end).max().ok_or(out_of)?,
        };
        if start < mdat.0 || start > mdat.1 {
            return Err(out_of);
        }
        if end < start || end > mdat.1 {
            return Err(Mp4Error::EndOut(*b"mdat"));
        }
        let length = end - start;
        match u32::try_from(length.saturating_add(8)) {
            Ok(size) => {
                self.number(size);
                self.out.extend_from_slice(b"mdat");
            }
            Err(_) => {
                self.number(1);
                self.out.extend_from_slice(b"mdat");
                self.out.extend_from_slice(&length.saturating_add(16).to_be_bytes());
            }
        }
        self.move_chunks(start)?;
        Ok(MoviePart { head: self.out, start, length })
    }

    fn move_chunks(&mut self, start: u64) -> Result<(), Mp4Error> {
        let malformed = Mp4Error::Malformed(*b"stco");
        let base = self.out.len() as u64;
        for ((place, width), window) in std::mem::take(&mut self.chunks).into_iter().zip(&self.kept)
        {
            let rows = window.last_chunk.saturating_sub(window.first_chunk);
            let size = usize::try_from(rows).ok().and_then(|rows| rows.checked_mul(width));
            let end = size.and_then(|size| place.checked_add(size)).ok_or(malformed)?;
            let table = self.out.get_mut(place..end).ok_or(malformed)?;
            for (index, row) in table.chunks_exact_mut(width).enumerate() {
                let old = read(row, 0, width == 8).ok_or(malformed)?;
                // The first chunk begins with its first sample that is kept.
                let old = if index == 0 { window.start } else { old };
                let new = old.checked_sub(start).and_then(|new| new.checked_add(base));
                let new = new.ok_or(malformed)?;
                match width {
                    8 => row.copy_from_slice(&new.to_be_bytes()),
                    _ => {
                        let new = u32::try_from(new).map_err(|_| Mp4Error::TooLarge(*b"stco"))?;
                        row.copy_from_slice(&new.to_be_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: BoxType) -> usize {
        let place = self.out.len();
        self.number(0);
        self.out.extend_from_slice(&kind);
        place
    }

    fn end(&mut self, place: usize, kind: BoxType) -> Result<(), Mp4Error> {
        let size = u32::try_from(self.out.len() - place).map_err(|_| Mp4Error::TooLarge(kind))?;
        self.patch(place, &size.to_be_bytes());
        Ok(())
    }

    fn copy(&mut self, child: &Child<'_>) {
        self.out.extend_from_slice(child.whole);
    }

    fn number(&mut self, number: u32) {
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    fn patch(&mut self, place: usize, bytes: &[u8]) {
        if let Some(old) = self.out.get_mut(place..place.saturating_add(bytes.len())) {
            old.copy_from_slice(bytes);
        }
    }
}

/// Ticks per second.
struct TimeScales {
    timescale: u32,
}

impl TimeScales {
    fn parse(content: &[u8], kind: BoxType) -> Result<TimeScales, Mp4Error> {
        let at = if content.first() == Some(&1) { 20 } else { 12 };
        match be32(content, at).ok_or(Mp4Error::TooSmall(kind))? {
            0 => Err(Mp4Error::Malformed(kind)),
            timescale => Ok(TimeScales { timescale }),
        }
    }
}

/// Offsets of the duration in a box: in version 0 and in version 1.
#[derive(Clone, Copy)]
struct DurationOffsets {
    short: usize,
    long: usize,
    has_timescale: bool,
}

impl DurationOffsets {
    fn place(&self, content: &[u8]) -> (usize, bool) {
        match content.first() {
            Some(1) => (self.long, true),
            _ => (self.short, false),
        }
    }
}

const MOVIE: DurationOffsets = DurationOffsets { short: 16, long: 24, has_timescale: true };
const MEDIA: DurationOffsets = MOVIE;
const TRACK: DurationOffsets = DurationOffsets { short: 20, long: 28, has_timescale: false };

fn read(bytes: &[u8], at: usize, long: bool) -> Option<u64> {
    if long { be64(bytes, at) } else { be32(bytes, at).map(u64::from) }
}
