//! What never goes in by itself, by its name.

use super::weights::split;

const RUNTIME: &str = "weights for another runtime";
const FRAMEWORK: &str = "weights for another framework";
const SECRET: &str = "may hold secrets; --include takes it only by its whole name";

/// Folders that hold other formats of the same weights, or the way there; at any depth, because modules and the parts of a
/// pipeline have them too.
const FOLDERS: [(&str, &str); 8] = [
    ("original", "the original checkpoint, a second weight set"),
    ("metal", RUNTIME),
    ("coreml", RUNTIME),
    ("onnx", RUNTIME),
    ("openvino", RUNTIME),
    ("runs", "training state"),
    ("__macosx", "left by an archive tool"),
    ("__pycache__", "made when code ran"),
];

/// Starts of the name of a file or a folder. Names that begin with a dot are hidden, and belong to a tool.
const STARTS: [(&str, &str); 8] = [
    ("checkpoint-", "training state"),
    ("openvino_", RUNTIME),
    (".git", "belongs to git"),
    (".cache", "belongs to a download tool"),
    (crate::pull::OWN_NAMES, "written by a pull into this folder"),
    (".", "hidden, and belongs to a tool"),
    ("thumbs.db", "belongs to a tool"),
    ("desktop.ini", "belongs to a tool"),
];

const SECRETS: [(&str, &str); 5] = [
    (".env", SECRET),
    (".netrc", SECRET),
    (".git-credentials", SECRET),
    (".ssh", SECRET),
    (".aws", SECRET),
];

/// Ends of the names of weights that none of the weight sets is.
const FOREIGN: [(&str, &str); 12] = [
    (".h5", FRAMEWORK),
    (".msgpack", FRAMEWORK),
    (".ot", FRAMEWORK),
    (".ckpt", FRAMEWORK),
    (".pb", FRAMEWORK),
    (".tflite", RUNTIME),
    (".onnx", RUNTIME),
    (".onnx_data", RUNTIME),
    (".onnx.data", RUNTIME),
    (".mlmodel", RUNTIME),
    (".engine", RUNTIME),
    (".nemo", FRAMEWORK),
];

const ENDS: [(&str, &str); 25] = [
    (".imatrix", "used to quantise and not to serve"),
    (".png", "an image"),
    (".jpg", "an image"),
    (".jpeg", "an image"),
    (".gif", "an image"),
    (".svg", "an image"),
    (".webp", "an image"),
    (".mp4", "a video"),
    (".webm", "a video"),
    (".mov", "a video"),
    (".mp3", "a sound"),
    (".wav", "a sound"),
    (".flac", "a sound"),
    (".pdf", "a document for people"),
    (".zip", "an archive"),
    (".tar", "an archive"),
    (".tar.gz", "an archive"),
    (".tgz", "an archive"),
    (".7z", "an archive"),
    (".rar", "an archive"),
    (".parquet", "a data set"),
    (".arrow", "a data set"),
    (".incomplete", "an unfinished download"),
    (".part", "an unfinished download"),
    (".crdownload", "an unfinished download"),
];

const TRAINING_NAMES: [&str; 7] = [
    "training_args.bin",
    "optimizer.",
    "scheduler.pt",
    "scaler.pt",
    "trainer_state.json",
    "rng_state",
    "events.out.tfevents",
];

/// Why it never goes in by itself.
pub(super) fn never(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let (folder, name) = split(&lower);
    let by_folder = || {
        folder
            .split('/')
            .find_map(|part| reason_in(&FOLDERS, |known| part == known))
    };
    let by_secret = || {
        lower
            .split('/')
            .find_map(|part| reason_in(&SECRETS, |start| part.starts_with(start)))
    };
    let by_start = || {
        lower
            .split('/')
            .find_map(|part| reason_in(&STARTS, |start| part.starts_with(start)))
    };
    let by_end = || reason_in(&ENDS, |end| name.ends_with(end));
    let training = || {
        TRAINING_NAMES
            .iter()
            .any(|prefix| name.starts_with(prefix))
            .then_some("training state")
    };
    by_folder()
        .or_else(by_secret)
        .or_else(by_start)
        .or_else(|| foreign_end(name))
        .or_else(by_end)
        .or_else(training)
}

/// Whether it is weights of a kind that no server of the weight sets loads.
pub(super) fn is_foreign_weight(path: &str) -> bool {
    foreign_end(&path.to_ascii_lowercase()).is_some()
}

/// Whether it belongs to another runtime or framework, by its name or its folder.
pub(super) fn is_foreign(path: &str) -> bool {
    never(path).is_some_and(|reason| reason == RUNTIME || reason == FRAMEWORK)
}

/// Whether only a pattern without a wildcard takes it: what may hold secrets is not meant by "everything".
pub(super) fn is_secret(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let mut parts = lower.split('/');
    parts.any(|part| part == ".git" || SECRETS.iter().any(|(start, _)| part.starts_with(start)))
}

/// Large ONNX models have their weights in numbered files: `model.onnx_data_1`.
fn foreign_end(lower: &str) -> Option<&'static str> {
    let numbered = lower.contains(".onnx_data_").then_some(RUNTIME);
    reason_in(&FOREIGN, |end| lower.ends_with(end)).or(numbered)
}

fn reason_in(list: &[(&str, &'static str)], fits: impl Fn(&str) -> bool) -> Option<&'static str> {
    list.iter().find(|(name, _)| fits(name)).map(|(_, reason)| *reason)
}
