use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn pieces_begin_where_large_tensors_begin() {
    let cases: [(u64, &[u64], &[u64]); 8] = [
        (0, &[], &[]),
        (100, &[], &[100]),
        (40 * MIB, &[], &[16 * MIB, 16 * MIB, 8 * MIB]),
        // A header, then two tensors: the long one is cut from its own start.
        (
            1000 + 20 * MIB + 2 * MIB,
            &[1000, 1000 + 20 * MIB],
            &[1000, 16 * MIB, 4 * MIB, 2 * MIB],
        ),
        // Small tensors share a piece, the large one between them does not.
        (
            100 + 300 + 300 + 2 * MIB + 50,
            &[100, 400, 700, 700 + 2 * MIB],
            &[100, 600, 2 * MIB, 50],
        ),
        // The header is never grouped with tensors, however small.
        (100 + 10, &[100], &[100, 10]),
        (100, &[0, 0, 50, 50, 100, 200], &[50, 50]),
        (17 * MIB, &[17 * MIB], &[16 * MIB, MIB]),
    ];
    for (size, starts, lengths) in cases {
        assert_eq!(plan_pieces(size, starts), lengths, "{size} {starts:?}");
    }
}

#[test]
fn many_small_tensors_fill_pieces_up_to_the_limit() {
    let starts: Vec<u64> = (0..100).map(|at| 100 + at * (MIB - 1)).collect();
    let lengths = plan_pieces(100 + 100 * (MIB - 1), &starts);
    assert!(lengths.iter().all(|length| *length <= PIECE_LIMIT));
    assert_eq!(lengths.len(), 1 + 100_usize.div_ceil(16));
}

proptest! {
    #[test]
    fn a_plan_covers_the_file_and_keeps_the_limit(size in 0..200 * MIB, starts in prop::collection::vec(0..200 * MIB, 0..40)) {
        let lengths = plan_pieces(size, &starts);
        prop_assert_eq!(lengths.iter().sum::<u64>(), size);
        prop_assert!(lengths.iter().all(|length| (1..=PIECE_LIMIT).contains(length)));
        let backwards: Vec<u64> = starts.iter().rev().copied().collect();
        prop_assert_eq!(plan_pieces(size, &backwards), lengths);
    }

    #[test]
    fn a_tensor_has_the_same_pieces_wherever_it_lies(before in 0..4 * MIB, tensor in PIECE_FLOOR..40 * MIB, after in 0..4 * MIB) {
        let alone = pieces_inside(8, tensor, 8 + tensor);
        prop_assert_eq!(pieces_inside(8 + before, tensor, 8 + before + tensor + after), alone);
    }

    #[test]
    fn a_map_is_read_back_as_it_was_written(lengths in prop::collection::vec(1..5_u64, 0..40)) {
        let map = PieceMap::new(vec![file(&lengths)]);
        let read = PieceMap::from_bytes(&map.document().bytes).unwrap();
        prop_assert_eq!(&read, &map);
        let pieces = read.file(&Digest::of(b"whole")).unwrap().pieces();
        prop_assert_eq!(pieces.iter().map(|piece| piece.length).collect::<Vec<_>>(), lengths);
        prop_assert_eq!(pieces.last().map_or(0, |piece| piece.offset + piece.length), map.files()[0].size);
    }
}

/// The pieces of a tensor, by their place in it, in a file of a header, the tensor and something around it.
fn pieces_inside(start: u64, tensor: u64, size: u64) -> Vec<(u64, u64)> {
    let mut end = 0;
    let mut placed = Vec::new();
    for length in plan_pieces(size, &[8, start, start + tensor]) {
        placed.push((end, length));
        end += length;
    }
    let inside = placed
        .into_iter()
        .filter(|(at, _)| (start..start + tensor).contains(at));
    inside.map(|(at, length)| (at - start, length)).collect()
}

fn file(lengths: &[u64]) -> FilePieces {
    let digests: Vec<Digest> = lengths.iter().map(|length| Digest::of(&length.to_le_bytes())).collect();
    FilePieces::of_pieces("a".parse().unwrap(), Digest::of(b"whole"), lengths, &digests).unwrap()
}

#[test]
fn each_piece_needs_its_digest() {
    let path: FilePath = "a".parse().unwrap();
    assert_eq!(
        FilePieces::of_pieces(path, Digest::of(b""), &[1, 2], &[Digest::of(b"")]),
        None
    );
}

#[test]
fn a_map_that_does_not_add_up_is_refused() {
    let map = PieceMap::new(vec![file(&[3, 3, 1])]);
    let text = String::from_utf8(map.document().bytes).unwrap();
    insta::assert_snapshot!(text);
    for (from, to, problem) in [
        ("\"version\":1", "\"version\":2", "version 2"),
        ("\"size\":7", "\"size\":8", "the file has 8"),
        ("[[3,2],[1,1]]", "[[3,2],[0,1],[1,1]]", "0 bytes"),
        ("[[3,2],[1,1]]", "[[7,1]]", "96 bytes of digests for 1"),
        ("[[3,2],[1,1]]", "[[16777217,1]]", "16777217 bytes"),
        ("[[3,2],[1,1]]", "[[1,18446744073709551615]]", "more than"),
        ("\"path\":\"a\"", "\"path\":\"../a\"", "cannot be read"),
    ] {
        let broken = text.replace(from, to);
        assert_ne!(broken, text, "{from} is not there");
        let error = PieceMap::from_bytes(broken.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{to}: {error}");
    }
}
