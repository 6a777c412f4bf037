//! Golden decisions of the shipped matrix, generated from published claims.
//!
//! `tests/published/claims` is a transcription of what vendors and projects publish: it knows nothing of the matrix. The rule that
//! makes case folders of it is in `tests/cases/README.md`. `GOLDEN=write cargo test -p matrix --test published` writes the folders; what a
//! claim expects is never written, so a matrix that says something else fails.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use matrix::{Matrix, decide};

mod published_cases;

use published_cases::{
    answer,
    case::Case,
    claim::{self, Book},
    expectation, register,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published")
}

#[expect(clippy::disallowed_methods, reason = "a test looks at its own files")]
fn files(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "a test looks at its own files")]
fn folders(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    paths
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// The books of a folder, by name.
fn books(folder: &str) -> BTreeMap<String, Book> {
    let texts = files(&root().join(folder)).into_iter();
    texts
        .map(|(name, text)| {
            let book = claim::book(&name, &text);
            (name.trim_end_matches(".yaml").to_owned(), book)
        })
        .collect()
}

fn cases(folder: &str) -> Vec<Case> {
    let models = claim::models(&read("models.yaml"));
    let products = claim::products(&read("products.yaml"));
    let books = books(folder);
    books
        .iter()
        .flat_map(|(name, book)| book.cases(name, &models, &products))
        .collect()
}

fn read(name: &str) -> String {
    files(&root())
        .remove(name)
        .unwrap_or_else(|| panic!("tests/published/{name} is missing"))
}

/// The files of a case as they should be, and where the decision says something else than the claim.
fn judged(case: &Case, matrix: &Matrix) -> (BTreeMap<String, String>, Vec<String>, BTreeSet<String>) {
    let request = case.request(matrix);
    let decision = decide(matrix, &request);
    let files = BTreeMap::from([
        ("cluster.yaml".to_owned(), case.cluster.clone()),
        ("question.yaml".to_owned(), case.question()),
        ("answer.txt".to_owned(), answer::describe(&decision, &request)),
    ]);
    let mut faults = expectation::faults(case, matrix, &decision);
    faults.extend(expectation::faults_of_context(case, matrix, &request));
    let vendors = request.pools.into_iter().filter_map(|pool| pool.vendor);
    (files, faults, vendors.collect())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test writes its own files when it is told to"
)]
fn write(folder: &Path, files: &BTreeMap<String, String>) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test takes a switch from its environment and removes what it wrote"
)]
#[test]
fn every_published_claim_is_what_the_matrix_says_and_every_answer_stands_as_written() {
    let matrix = Matrix::shipped();
    let told = std::env::var("GOLDEN").is_ok_and(|word| word == "write");
    let place = root().join("cases");
    let (mut wrong, mut names, mut vendors) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for case in cases("claims") {
        assert!(names.insert(case.name.clone()), "two cases are named {}", case.name);
        let (now, faults, seen) = judged(&case, matrix);
        vendors.extend(seen);
        let folder = place.join(&case.name);
        if told {
            write(&folder, &now);
        }
        let says = &case.says;
        wrong.extend(
            faults
                .into_iter()
                .map(|fault| format!("{}: {fault}\n    {says}", case.name)),
        );
        let expected = files(&folder);
        if expected != now {
            let before = expected.get("answer.txt").map_or("", String::as_str);
            let answer = &now["answer.txt"];
            wrong.push(format!("{}: expected\n{before}\n--- got\n{answer}", case.name));
        }
    }
    for stale in folders(&place).difference(&names) {
        if told {
            fs::remove_dir_all(place.join(stale)).unwrap();
        }
        wrong.push(format!("{stale} belongs to no claim"));
    }
    assert!(wrong.is_empty(), "{} faults\n{}", wrong.len(), wrong.join("\n"));
    assert!(names.len() >= 200, "only {} cases", names.len());
    let all: BTreeSet<String> = matrix.vendors().keys().cloned().collect();
    assert_eq!(vendors, all, "a vendor has no case");
}

/// Long tables are asked without a folder for each question: what they expect is all there is to read.
#[test]
fn every_row_of_the_long_tables_is_what_the_matrix_says() {
    let matrix = Matrix::shipped();
    let cases = cases("tables");
    let faults: Vec<String> = cases
        .iter()
        .flat_map(|case| {
            let request = case.request(matrix);
            let decision = decide(matrix, &request);
            let faults = expectation::faults(case, matrix, &decision).into_iter();
            faults.map(|fault| format!("{}: {fault}\n    {}", case.name, case.says))
        })
        .collect();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(cases.len() >= 300, "only {} questions", cases.len());
}

#[test]
fn every_published_row_is_asked_or_says_why_it_is_not() {
    let books = [books("claims"), books("tables")];
    let claims: BTreeSet<&str> = books.iter().flat_map(BTreeMap::values).flat_map(Book::says).collect();
    let faults = register::faults(&register::read("register.yaml", &read("register.yaml")), &claims);
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}
