//! Decodes the published header blocks of several HPACK encoders, and encodes their fields again.
//!
//! The argument is a directory with a directory for each encoder, whose `story_*.json` files each hold the blocks of one
//! connection in order (github.com/http2jp/hpack-test-case). Every block has to decode to exactly its fields. The same
//! fields are then encoded by each of our encoders and decoded again. `scripts/hpack-tests.sh` runs it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;
use tidegate_codec::Known;
use tidegate_h2::hpack::{Decoder, Encoder, Indexing};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// One block of a story.
struct Block {
    /// The block as an encoder wrote it; `None` in the stories that have fields alone.
    wire: Option<Vec<u8>>,
    /// SETTINGS_HEADER_TABLE_SIZE from this block on, bytes.
    table_bytes: Option<u32>,
    fields: Fields,
}

/// What one encoder's stories amounted to.
#[derive(Default)]
struct Count {
    stories: usize,
    blocks: usize,
    fields: usize,
    wire_bytes: usize,
    own_bytes: usize,
}

fn main() -> Outcome<()> {
    let corpus = env::args_os().nth(1).ok_or("usage: hpack_corpus DIRECTORY")?;
    let mut encoders: Vec<PathBuf> = entries(Path::new(&corpus))?;
    encoders.retain(|path| path.is_dir() && !path.ends_with(".git"));
    let mut total = 0;
    println!(
        "{:24}{:>8}{:>8}{:>9}{:>9}{:>9}",
        "encoder", "stories", "blocks", "fields", "bytes", "ours"
    );
    for encoder in encoders {
        let mut count = Count::default();
        for story in entries(&encoder)? {
            if story.extension().is_some_and(|extension| extension == "json") {
                let at = |error| format!("{}: {error}", story.display());
                check(&read(&story).map_err(at)?, &mut count).map_err(at)?;
            }
        }
        if count.stories > 0 {
            let name = encoder.file_name().unwrap_or_default().to_string_lossy();
            let Count { stories, blocks, fields, wire_bytes, own_bytes } = count;
            println!("{name:24}{stories:8}{blocks:8}{fields:9}{wire_bytes:9}{own_bytes:9}");
            total += blocks;
        }
    }
    match total {
        0 => Err("no story found".into()),
        total => {
            println!("{total} blocks, all as expected");
            Ok(())
        }
    }
}

/// Returns what a directory holds, sorted.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Checks one connection: its blocks as they are, then by encoders of ours with and without table and Huffman code.
fn check(story: &[Block], count: &mut Count) -> Outcome<()> {
    count.stories += 1;
    let mut decoder = Decoder::new();
    for (number, block) in story.iter().enumerate() {
        count.blocks += 1;
        count.fields += block.fields.len();
        if let Some(bytes) = block.table_bytes {
            decoder.announce(bytes);
        }
        if let Some(wire) = &block.wire {
            count.wire_bytes += wire.len();
            same(number, &decode(&mut decoder, wire)?, &block.fields)?;
        }
    }
    count.own_bytes += encode(story, 4096, true)?;
    encode(story, 512, true)?;
    encode(story, 0, false).map(drop)
}

/// Encodes a story and decodes it again; returns the bytes of its blocks.
fn encode(story: &[Block], table_bytes: u32, huffman: bool) -> Outcome<usize> {
    let (mut encoder, mut decoder) = (Encoder::new(table_bytes, huffman), Decoder::new());
    let mut total = 0;
    for (number, block) in story.iter().enumerate() {
        let mut wire = Vec::new();
        encoder.begin(&mut wire);
        for (name, value) in &block.fields {
            encoder.field(Known::of(name), name, value, Indexing::Incremental, &mut wire);
        }
        same(number, &decode(&mut decoder, &wire)?, &block.fields)?;
        total += wire.len();
    }
    Ok(total)
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Outcome<Fields> {
    let mut fields = Fields::new();
    decoder.decode(block, &mut |field| fields.push((field.name.to_vec(), field.value.to_vec())))?;
    Ok(fields)
}

fn same(number: usize, decoded: &Fields, expected: &Fields) -> Outcome<()> {
    match decoded == expected {
        true => Ok(()),
        false => Err(format!("block {number}: {decoded:?} instead of {expected:?}").into()),
    }
}

/// Reads one story.
fn read(path: &Path) -> Outcome<Vec<Block>> {
    let story: Value = serde_json::from_slice(&fs::read(path)?)?;
    story["cases"].as_array().ok_or("no cases")?.iter().map(block).collect()
}

fn block(case: &Value) -> Outcome<Block> {
    let mut fields = Fields::new();
    for field in case["headers"].as_array().ok_or("no headers")? {
        for (name, value) in field.as_object().ok_or("no field")? {
            let value = value.as_str().ok_or("no value")?;
            fields.push((name.clone().into_bytes(), value.to_owned().into_bytes()));
        }
    }
    let wire = case["wire"].as_str().map(bytes_of_hex).transpose()?;
    let table_bytes = case["header_table_size"].as_u64().map(u32::try_from).transpose()?;
    Ok(Block { wire, table_bytes, fields })
}

fn bytes_of_hex(text: &str) -> Outcome<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
