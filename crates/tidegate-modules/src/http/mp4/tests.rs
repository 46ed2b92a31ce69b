//! Videos made by hand, cut and checked; invalid files; arbitrary bytes.

use proptest::prelude::*;

use super::boxes::{Mp4Error, be32, need};
use super::*;
use crate::testing::Bench;

fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut out = (content.len() as u32 + 8).to_be_bytes().to_vec();
    out.extend_from_slice(kind);
    out.extend_from_slice(content);
    out
}

fn numbers(kind: &[u8; 4], numbers: &[u32]) -> Vec<u8> {
    boxed(kind, &numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>())
}

const FTYP: &[u8] = b"\0\0\0\x10ftypisom\0\0\x02\0";
/// Offset of the media: behind `ftyp` and the header of `mdat`.
const MEDIA: u32 = 24;

/// Makes an index of ten samples, one a second, a letter each; chunks of 4, 4 and 2; key samples 1 and 6.
fn index(letters_at: u32) -> Vec<u8> {
    let at = letters_at;
    let stbl = [
        numbers(b"stsd", &[0, 0]),
        numbers(b"stts", &[0, 1, 10, 100]),
        numbers(b"stss", &[0, 2, 1, 6]),
        numbers(b"ctts", &[0, 2, 5, 7, 5, 8]),
        numbers(b"stsc", &[0, 2, 1, 4, 1, 3, 2, 1]),
        numbers(b"stsz", &[0, 0, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        numbers(b"stco", &[0, 3, at, at + 4, at + 8]),
        boxed(b"sgpd", b"not true any more"),
    ];
    let minf = boxed(b"minf", &boxed(b"stbl", &stbl.concat()));
    let mdia = [numbers(b"mdhd", &[0, 0, 0, 100, 1000, 0]), minf].concat();
    let mut tkhd = [0; 21];
    tkhd[5] = 10_000;
    let trak = [numbers(b"tkhd", &tkhd), boxed(b"edts", b""), boxed(b"mdia", &mdia)].concat();
    let mut mvhd = [0; 25];
    (mvhd[3], mvhd[4]) = (1000, 10_000);
    boxed(b"moov", &[numbers(b"mvhd", &mvhd), boxed(b"trak", &trak)].concat())
}

fn movie() -> Vec<u8> {
    [FTYP, &boxed(b"mdat", b"abcdefghij"), &index(MEDIA)].concat()
}

/// Returns the contents of a box in a video, by the boxes around it.
fn look<'a>(movie: &'a [u8], path: &[&[u8; 4]]) -> &'a [u8] {
    path.iter().fold(movie, |content, kind| need(content, **kind).unwrap())
}

fn table(movie: &[u8], kind: &[u8; 4]) -> Vec<u32> {
    let content = look(movie, &[b"moov", b"trak", b"mdia", b"minf", b"stbl", kind]);
    (1..content.len() / 4).map(|word| be32(content, word * 4).unwrap()).collect()
}

fn bench(movie: &[u8], more: &str) -> Bench {
    let config = format!("server {{ listen 80; root {{dir}}; location / {{ mp4; {more} }} }}");
    let bench = Bench::new(&config);
    std::fs::write(bench.dir.path().join("v.mp4"), movie).unwrap();
    bench
}

#[test]
fn a_part_holds_the_samples_of_its_time() {
    let bench = bench(&movie(), "");
    for (args, letters) in [
        ("start=0", "abcdefghij"),
        ("start=2", "cdefghij"),
        ("start=2.5", "cdefghij"),
        ("start=5&end=7", "fg"),
        ("end=4", "abcd"),
        ("START=8&end=99", "ij"),
        ("start=3&end=2", "defghij"),
        ("start=9.999999", "j"),
    ] {
        let reply = bench.get(&format!("/v.mp4?{args}"));
        assert_eq!(reply.status, 200, "{args}");
        assert_eq!(look(&reply.body, &[b"mdat"]), letters.as_bytes(), "{args}");
        let first = table(&reply.body, b"stco")[1] as usize;
        assert_eq!(reply.body.get(first), letters.as_bytes().first(), "{args}");
        assert_eq!(table(&reply.body, b"stsz")[1], letters.len() as u32, "{args}");
    }
    for whole in ["", "?start=x", "?start=-1", "?end=0", "?restart=4"] {
        assert_eq!(bench.get(&format!("/v.mp4{whole}")).body, movie(), "{whole}");
    }
}

#[test]
fn tables_and_durations_are_those_of_the_part() {
    let reply = bench(&movie(), "").get("/v.mp4?start=2&end=9");
    let movie = &reply.body[..];
    assert_eq!(table(movie, b"stts"), [1, 7, 100]);
    assert_eq!(table(movie, b"stss"), [1, 4]);
    assert_eq!(table(movie, b"ctts"), [2, 3, 7, 4, 8]);
    assert_eq!(table(movie, b"stsc"), [3, 1, 2, 1, 2, 4, 1, 3, 1, 1]);
    let chunks = table(movie, b"stco");
    let media = (movie.len() - 7) as u32;
    assert_eq!(chunks, [3, media, media + 2, media + 6]);
    assert_eq!(be32(look(movie, &[b"moov", b"mvhd"]), 16), Some(7000));
    assert_eq!(be32(look(movie, &[b"moov", b"trak", b"tkhd"]), 20), Some(7000));
    assert_eq!(be32(look(movie, &[b"moov", b"trak", b"mdia", b"mdhd"]), 16), Some(700));
    assert!(!movie.windows(4).any(|word| word == b"sgpd" || word == b"edts"));
}

#[test]
fn a_key_frame_is_sent_and_hidden() {
    let reply = bench(&movie(), "mp4_start_key_frame on;").get("/v.mp4?start=8&end=9");
    assert_eq!(look(&reply.body, &[b"mdat"]), b"fghi");
    let edit = look(&reply.body, &[b"moov", b"trak", b"edts", b"elst"]);
    // One second is shown, after three seconds of the media.
    assert_eq!((be32(edit, 12), be32(edit, 20)), (Some(1000), Some(300)));
    assert_eq!(be32(look(&reply.body, &[b"moov", b"trak", b"mdia", b"mdhd"]), 16), Some(400));
}

#[test]
fn an_index_in_front_makes_start_zero_the_whole_file() {
    let at = (FTYP.len() + index(0).len() + 8) as u32;
    let movie = [FTYP, &index(at), &boxed(b"mdat", b"abcdefghij")].concat();
    let bench = bench(&movie, "");
    assert_eq!(bench.get("/v.mp4?start=0").body, movie);
    assert_eq!(look(&bench.get("/v.mp4?start=6").body, &[b"mdat"]), b"ghij");
}

#[test]
fn what_cannot_be_cut_is_an_error() {
    let mut far = movie();
    let place = far.windows(4).position(|word| word == b"stco").unwrap() + 12;
    far[place] = 0x7f;
    for (movie, more, args, line) in [
        (movie(), "", "start=10", "v.mp4\" mp4 start time exceeds file duration"),
        (movie(), "", "end=0.1", "no data between start time and end time in \""),
        (
            movie(),
            "mp4_buffer_size 100; mp4_max_buffer_size 100;",
            "start=1",
            "v.mp4\" mp4 moov atom is too large:",
        ),
        (b"hello, world".to_vec(), "", "start=1", "v.mp4\" mp4 atom too large:1751477356"),
        (FTYP.to_vec(), "", "start=1", "no mp4 moov atoms were found in \""),
        (far, "", "start=0", "start time is out mp4 mdat atom in \""),
    ] {
        let bench = bench(&movie, more);
        assert_eq!(bench.get(&format!("/v.mp4?{args}")).status, 500, "{line}");
        let log = bench.read("logs/error.log");
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn what_is_no_file_is_left_to_others() {
    let bench = bench(&movie(), "");
    assert_eq!(bench.get("/none.mp4?start=1").status, 404);
    assert_eq!(bench.get("/logs?start=1").status, 301);
    assert_eq!(bench.get("/logs/?start=1").status, 403);
    let post = "POST /v.mp4?start=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(bench.send(post).status, 405);
}

#[test]
fn times_have_three_digits_behind_the_point() {
    for (text, expected) in [
        ("0", Some(0)),
        ("12", Some(12_000)),
        ("1.5", Some(1500)),
        (".25", Some(250)),
        ("3.", Some(3000)),
        ("2.0019", Some(2001)),
        ("", None),
        ("-1", None),
        ("1.2.3", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(milliseconds(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn a_table_longer_than_its_box_is_refused() {
    assert_eq!(
        boxes::Table::parse(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], *b"stco", 4, 8).err(),
        Some(Mp4Error::TooSmall(*b"stco"))
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_mp4(&data);
    }

    /// Numbers of a valid video replaced by others, above all extreme ones.
    #[test]
    fn damaged_movies_do_not_panic(
        choice: u8,
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![
                any::<u32>(), 0..20_u32, Just(u32::MAX), Just(0x8000_0000),
            ]),
            1..5,
        ),
    ) {
        let mut data = movie();
        for (place, number) in changes {
            let place = place.index(data.len() / 4) * 4;
            // Tables are at any offset: at least every second change hits one.
            let place = (place + (number as usize & 2)).min(data.len() - 4);
            data[place..place + 4].copy_from_slice(&number.to_be_bytes());
        }
        data.insert(0, choice);
        fuzz_mp4(&data);
    }
}

/// Feeds arbitrary bytes to the module as a file. The first byte chooses the requested part.
fn fuzz_mp4(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let start = u64::from(choice & 15) * 250;
    let length = (choice & 16 != 0).then_some(700);
    let wanted = RequestedPart { start, length, key_frame: choice & 32 != 0 };
    let content = Content::Memory(Bytes::copy_from_slice(file));
    if let Ok(Some(movie_part)) = movie_part(&content, file.len() as u64, u64::MAX, &wanted) {
        let end = movie_part.start.checked_add(movie_part.length);
        assert!(end.is_some_and(|end| end <= file.len() as u64), "the part is in the file");
    }
}
