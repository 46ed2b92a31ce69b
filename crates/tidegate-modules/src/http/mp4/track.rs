//! Finds the samples and chunks of a track that belong to a part of it.

use super::boxes::{Mp4Error, Table, TableRow, be32, find, need};
use super::cut::{Duration, RequestedPart};

/// The tables of a track; their lengths are checked.
pub(super) struct Track<'a> {
    /// Rows of number of samples, ticks of each.
    pub times: Table<'a>,
    /// Numbers of key samples, counted from one; without the table all samples are.
    pub keys: Option<Table<'a>>,
    /// Rows of number of samples, offset of each.
    pub offsets: Option<Table<'a>>,
    /// Rows of first chunk counted from one, samples in each, description.
    pub runs: Table<'a>,
    /// Bytes of each sample; empty where all have the same.
    pub sizes: Table<'a>,
    pub uniform_size: u32,
    pub chunks: Table<'a>,
}

/// The part of a track that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// First sample, counted from zero.
    pub first: u64,
    /// First sample behind the part; the greatest number for "to the end".
    pub last: u64,
    /// Ticks between the first sample and the start of playback (`mp4_start_key_frame`).
    pub prologue: u64,
    /// First chunk, counted from zero, and the number of its samples that are left out.
    pub first_chunk: u64,
    pub skipped: u64,
    /// First chunk behind the part, and samples of the one before up to the part's end.
    pub last_chunk: u64,
    pub kept: Option<u64>,
    /// Offset of the first sample in the file.
    pub start: u64,
    /// Offset of the end of the last sample, if the part has an end.
    pub end: Option<u64>,
}

impl<'a> Track<'a> {
    /// Parses the tables in the contents of a `stbl` box.
    ///
    /// # Errors
    /// A table is missing, duplicate, or longer than its box.
    pub(super) fn parse(stbl: &'a [u8]) -> Result<Track<'a>, Mp4Error> {
        let optional = |kind, width| {
            find(stbl, kind)?.map(|content| Table::parse(content, kind, 4, width)).transpose()
        };
        let sizes = need(stbl, *b"stsz")?;
        let uniform_size = be32(sizes, 4).ok_or(Mp4Error::TooSmall(*b"stsz"))?;
        let chunks = match (optional(*b"stco", 4)?, optional(*b"co64", 8)?) {
            (Some(_), Some(_)) => return Err(Mp4Error::Duplicate(*b"stco")),
            (short, long) => short.or(long).ok_or(Mp4Error::Missing(*b"stco"))?,
        };
        Ok(Track {
            times: Table::parse(need(stbl, *b"stts")?, *b"stts", 4, 8)?,
            keys: optional(*b"stss", 4)?,
            offsets: optional(*b"ctts", 8)?,
            runs: Table::parse(need(stbl, *b"stsc")?, *b"stsc", 4, 12)?,
            sizes: match uniform_size {
                0 => Table::parse(sizes, *b"stsz", 8, 4)?,
                _ => Table::parse(&[0; 8], *b"stsz", 4, 4)?,
            },
            uniform_size,
            chunks,
        })
    }

    /// Finds the part; `None` when the track ends before it begins, or has no sample in it.
    ///
    /// # Errors
    /// The tables contradict each other.
    pub(super) fn window(
        &self,
        cut: &RequestedPart,
        timescale: u32,
    ) -> Result<Option<Window>, Mp4Error> {
        let Duration { start, length } = cut.in_ticks(timescale);
        let Some(sample) = self.sample_at(start) else { return Ok(None) };
        let first = if cut.key_frame { self.key_before(sample) } else { sample };
        let begins = self.time_of(first);
        let prologue = self.time_of(sample).saturating_sub(begins);
        let last = length.map_or(u64::MAX, |length| {
            let end = begins.saturating_add(prologue).saturating_add(length);
            self.sample_at(end).unwrap_or(u64::MAX)
        });
        // A track that ends before the part does: the part ends at the track's end.
        let last = if length.is_some() { last.min(self.samples()) } else { last };
        if last <= first {
            return Ok(None);
        }
        let (first_chunk, skipped) = self.chunk_of(first)?.ok_or(Mp4Error::StartOut(*b"stsc"))?;
        let start =
            self.place(first_chunk, first - skipped, first, Mp4Error::StartOut(*b"stsz"))?;
        let mut window = Window {
            first,
            last,
            prologue,
            first_chunk,
            skipped,
            last_chunk: self.chunks.len(),
            kept: None,
            start,
            end: None,
        };
        // The last chunk is cut behind the last sample that is kept.
        if length.is_some() {
            let (chunk, before) = self.chunk_of(last - 1)?.ok_or(Mp4Error::EndOut(*b"stsc"))?;
            let begin = last - 1 - before;
            window.last_chunk = chunk + 1;
            window.kept = Some(before + 1);
            window.end = Some(self.place(chunk, begin, last, Mp4Error::EndOut(*b"stsz"))?);
        }
        Ok(Some(window))
    }

    /// Returns the chunks of the part as runs: number of chunks, samples in each, description.
    ///
    /// # Errors
    /// The runs are not in order.
    pub(super) fn runs_of(&self, window: &Window) -> Result<Vec<(u64, u32, u32)>, Mp4Error> {
        let mut out: Vec<(u64, u32, u32)> = Vec::new();
        let mut push = |chunks: u64, samples: u64, description: u32| {
            let samples = u32::try_from(samples).unwrap_or(u32::MAX);
            match out.last_mut() {
                Some(run) if (run.1, run.2) == (samples, description) => run.0 += chunks,
                _ => out.push((chunks, samples, description)),
            }
        };
        let tail = window.last_chunk.saturating_sub(1);
        for run in self.runs() {
            let run = run?;
            let samples = |chunk: u64| {
                let all = u64::from(run.samples);
                let end = if chunk == tail { window.kept.unwrap_or(all) } else { all };
                let skipped = if chunk == window.first_chunk { window.skipped } else { 0 };
                end.saturating_sub(skipped)
            };
            let from = run.first.max(window.first_chunk);
            let until = run.next.min(window.last_chunk);
            if from >= until {
                continue;
            }
            push(1, samples(from), run.description);
            if until - from > 2 {
                push(until - from - 2, u64::from(run.samples), run.description);
            }
            if until - from > 1 {
                push(1, samples(until - 1), run.description);
            }
        }
        Ok(out)
    }

    /// Returns the number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.times.rows().map(|row| u64::from(row.number(0))).fold(0, u64::saturating_add)
    }

    /// Returns the sample that is shown at a time.
    fn sample_at(&self, mut time: u64) -> Option<u64> {
        let mut sample = 0_u64;
        for (count, ticks) in self.times.rows().map(pair) {
            let span = count.saturating_mul(ticks);
            if time < span {
                return Some(sample.saturating_add(time.checked_div(ticks)?));
            }
            time -= span;
            sample = sample.saturating_add(count);
        }
        None
    }

    fn time_of(&self, mut sample: u64) -> u64 {
        let mut time = 0_u64;
        for (count, ticks) in self.times.rows().map(pair) {
            time = time.saturating_add(count.min(sample).saturating_mul(ticks));
            sample = sample.saturating_sub(count);
            if sample == 0 {
                break;
            }
        }
        time
    }

    fn key_before(&self, sample: u64) -> u64 {
        let Some(keys) = &self.keys else { return sample };
        let keys = keys.rows().map(|row| u64::from(row.number(0)));
        let before = keys.filter(|key| *key >= 1 && *key <= sample.saturating_add(1)).max();
        before.map_or(sample, |key| key - 1)
    }

    /// Returns the chunk of a sample, and the number of samples in the chunk before it.
    fn chunk_of(&self, sample: u64) -> Result<Option<(u64, u64)>, Mp4Error> {
        let mut rest = sample;
        for run in self.runs() {
            let run = run?;
            let samples = u64::from(run.samples);
            let span = (run.next - run.first).saturating_mul(samples);
            if rest < span {
                let place = rest.checked_div(samples).zip(rest.checked_rem(samples));
                return Ok(place.map(|(chunk, before)| (run.first + chunk, before)));
            }
            rest -= span;
        }
        Ok(None)
    }

    fn runs(&self) -> impl Iterator<Item = Result<Run, Mp4Error>> + '_ {
        let following = self.runs.rows().skip(1).map(|row| Some(u64::from(row.number(0))));
        self.runs.rows().zip(following.chain([None])).map(|(row, following)| {
            let malformed = Mp4Error::Malformed(*b"stsc");
            let first = u64::from(row.number(0)).checked_sub(1).ok_or(malformed)?;
            let next = match following {
                Some(next) => next.checked_sub(1).ok_or(malformed)?,
                None => self.chunks.len(),
            };
            if next < first || next > self.chunks.len() {
                return Err(malformed);
            }
            Ok(Run { first, next, samples: row.number(1), description: row.number(2) })
        })
    }

    /// Returns the offset in the file of the end of the samples `from..until`, of which the first is the first of
    /// its chunk.
    fn place(&self, chunk: u64, from: u64, until: u64, fault: Mp4Error) -> Result<u64, Mp4Error> {
        let chunk = self.chunks.row(chunk).ok_or(fault)?.wide();
        let bytes = match self.uniform_size {
            0 if until > self.sizes.len() => return Err(fault),
            0 => {
                let sizes = self.sizes.part(from, until).rows();
                sizes.map(|row| u64::from(row.number(0))).fold(0, u64::saturating_add)
            }
            size => u64::from(size).saturating_mul(until.saturating_sub(from)),
        };
        chunk.checked_add(bytes).ok_or(fault)
    }
}

/// Consecutive chunks with the same number of samples.
struct Run {
    /// First chunk, counted from zero.
    first: u64,
    /// First chunk of the next run.
    next: u64,
    samples: u32,
    description: u32,
}

fn pair(row: TableRow<'_>) -> (u64, u64) {
    (u64::from(row.number(0)), u64::from(row.number(1)))
}
