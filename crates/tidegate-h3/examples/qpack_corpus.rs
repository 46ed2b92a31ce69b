//! Decodes the published output of several QPACK encoders, and encodes their fields again.
//!
//! The argument is a directory with `qifs/*.qif`, which hold lists of fields, and `encoded/*/ENCODER/*`, which hold
//! blocks: a stream's number (8 bytes), a length (4 bytes) and the bytes; those of stream 0 are the encoder stream's
//! (github.com/qpackers/qifs). A file's name ends with table size, blocked streams and whether acknowledgments were
//! assumed. Every section has to decode to exactly its fields. The same fields are then encoded by our encoder, with the
//! insertions late by some sections, and decoded again. `scripts/qpack-tests.sh` runs it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate_codec::Known;
use tidegate_fields::Budget;
use tidegate_h3::qpack::{Decoded, Decoder, Encoder, Indexing};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The files of the draft with the bits of the RFC; earlier ones have others.
const DRAFT: &str = "encoded/qpack-06";
/// Sections by which our own insertions are late.
const LATE_SECTIONS: usize = 5;

fn main() -> Outcome<()> {
    let corpus = env::args_os().nth(1).ok_or("usage: qpack_corpus DIRECTORY")?;
    let corpus = Path::new(&corpus);
    let mut total = 0;
    println!(
        "{:12}{:>8}{:>10}{:>10}{:>10}{:>10}",
        "encoder", "files", "sections", "fields", "bytes", "ours"
    );
    for encoder in entries(&corpus.join(DRAFT))?.into_iter().filter(|path| path.is_dir()) {
        let mut count = Count::default();
        for file in entries(&encoder)? {
            let Some(settings) = Settings::of(&file) else { continue };
            let list = corpus.join("qifs").join(format!("{}.qif", settings.list));
            if !list.exists() {
                continue;
            }
            let at = |error| format!("{}: {error}", file.display());
            let (lists, bytes) = (lists(&list)?, fs::read(&file)?);
            count.sections += decode(&bytes, &settings, &lists).map_err(at)?;
            count.own_bytes += encode(&settings, &lists).map_err(at)?;
            count.fields += lists.iter().map(Vec::len).sum::<usize>();
            count.bytes += bytes.len();
            count.files += 1;
        }
        let Count { files, sections, fields, bytes, own_bytes } = count;
        let name = encoder.file_name().unwrap_or_default().to_string_lossy();
        println!("{name:12}{files:8}{sections:10}{fields:10}{bytes:10}{own_bytes:10}");
        total += sections;
    }
    match total {
        0 => Err("no encoded file found".into()),
        total => {
            println!("{total} sections, all as expected");
            Ok(())
        }
    }
}

/// What one encoder's files amounted to.
#[derive(Default)]
struct Count {
    files: usize,
    sections: usize,
    fields: usize,
    bytes: usize,
    own_bytes: usize,
}

/// What the name of a file says: `LIST.OTHER.TABLE.BLOCKED.ACK`.
struct Settings {
    list: String,
    table_bytes: u32,
    blocked: u32,
}

impl Settings {
    fn of(file: &Path) -> Option<Settings> {
        let name = file.file_name()?.to_str()?;
        let mut parts = name.rsplitn(4, '.');
        let (_ack, blocked, table) = (parts.next()?, parts.next()?, parts.next()?);
        let (blocked, table_bytes) = (blocked.parse().ok()?, table.parse().ok()?);
        let list = parts.next()?.split('.').next()?.to_owned();
        Some(Settings { list, table_bytes, blocked })
    }
}

/// Returns what a directory holds, sorted.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Reads lists of fields: a line for each field, a tab behind its name, an empty line behind each list.
fn lists(path: &Path) -> Outcome<Vec<Fields>> {
    let text = fs::read(path)?;
    let (mut lists, mut list) = (Vec::new(), Fields::new());
    for line in text.split(|byte| *byte == b'\n') {
        match line.iter().position(|byte| *byte == b'\t') {
            _ if line.first() == Some(&b'#') => {}
            Some(tab) => list.push((line[..tab].to_vec(), line[tab + 1..].to_vec())),
            None if list.is_empty() => {}
            None => lists.push(std::mem::take(&mut list)),
        }
    }
    if !list.is_empty() {
        lists.push(list);
    }
    Ok(lists)
}

/// Decodes one file. The number of a stream is that of its list.
fn decode(mut bytes: &[u8], settings: &Settings, lists: &[Fields]) -> Outcome<usize> {
    let mut decoder = Decoder::new(settings.table_bytes, settings.blocked);
    let mut waiting: Vec<(u64, &[u8])> = Vec::new();
    let mut sections = 0;
    // The decoders of that time had the whole table from the begin.
    let capacity = set_capacity(settings.table_bytes);
    decoder.receive(&capacity, &mut Budget::new(1))?;
    while let Some((stream, rest)) = bytes.split_first_chunk() {
        let (length, rest) = rest.split_first_chunk().ok_or("no length")?;
        let length = u32::from_be_bytes(*length) as usize;
        let (block, rest) = rest.split_at_checked(length).ok_or("no block")?;
        bytes = rest;
        match u64::from_be_bytes(*stream) {
            0 => decoder.receive(block, &mut Budget::new(u32::MAX))?,
            stream => {
                sections += usize::from(section(&mut decoder, stream, block, lists)?);
                if decoder.blocked() > waiting.len() {
                    waiting.push((stream, block));
                }
            }
        }
        while let Some(stream) = decoder.unblocked() {
            let at = waiting.iter().position(|(of, _)| *of == stream).ok_or("never blocked")?;
            let (_, block) = waiting.remove(at);
            sections += usize::from(section(&mut decoder, stream, block, lists)?);
        }
        decoder.take_output(&mut Vec::new());
    }
    match sections == lists.len() {
        true => Ok(sections),
        false => Err(format!("{sections} sections of {}", lists.len()).into()),
    }
}

fn set_capacity(bytes: u32) -> Vec<u8> {
    let mut encoder = Encoder::new(bytes, false);
    encoder.limit(u64::from(bytes), 0);
    let mut out = Vec::new();
    encoder.take_output(&mut out);
    out
}

/// Decodes one section; `false` if it is blocked.
fn section(decoder: &mut Decoder, stream: u64, block: &[u8], lists: &[Fields]) -> Outcome<bool> {
    let mut fields = Fields::new();
    let decoded = decoder.decode(stream, block, &mut |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
    })?;
    let expected = lists.get(stream as usize - 1).ok_or("no list for this stream")?;
    match decoded {
        Decoded::Blocked => Ok(false),
        Decoded::Done if fields == *expected => Ok(true),
        Decoded::Done => Err(format!("stream {stream}: {fields:?} instead of {expected:?}").into()),
    }
}

/// Encodes all lists and decodes them again; returns the bytes of sections and instructions.
fn encode(settings: &Settings, lists: &[Fields]) -> Outcome<usize> {
    let mut encoder = Encoder::new(settings.table_bytes, true);
    encoder.limit(u64::from(settings.table_bytes), u64::from(settings.blocked));
    let mut decoder = Decoder::new(settings.table_bytes, settings.blocked);
    let mut late: Vec<(u64, Vec<u8>)> = Vec::new();
    let (mut total, mut done) = (0, 0);
    for (number, list) in lists.iter().enumerate() {
        let stream = number as u64 + 1;
        let (mut lines, mut block) = (Vec::new(), Vec::new());
        encoder.begin(stream);
        for (name, value) in list {
            encoder.field(Known::of(name), name, value, Indexing::Incremental, &mut lines);
        }
        encoder.finish(&mut block);
        block.extend_from_slice(&lines);
        total += block.len();
        match section(&mut decoder, stream, &block, lists)? {
            true => done += 1,
            false => late.push((stream, block)),
        }
        if number % LATE_SECTIONS == 0 || stream as usize == lists.len() {
            let mut instructions = Vec::new();
            encoder.take_output(&mut instructions);
            total += instructions.len();
            decoder.receive(&instructions, &mut Budget::new(u32::MAX))?;
            while let Some(stream) = decoder.unblocked() {
                let at = late.iter().position(|(of, _)| *of == stream).ok_or("never blocked")?;
                done += usize::from(section(&mut decoder, stream, &late.remove(at).1, lists)?);
            }
            let mut confirmations = Vec::new();
            decoder.take_output(&mut confirmations);
            encoder.receive(&confirmations)?;
        }
    }
    match done == lists.len() {
        true => Ok(total),
        false => Err(format!("our encoder: {done} sections of {}", lists.len()).into()),
    }
}
