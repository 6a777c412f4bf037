//! The answers of Python's `fnmatch.fnmatchcase`, asked once for each pattern and each name; a trailing `/` has a `*` behind it, as
//! the hubs' clients add it.

use super::*;

const NAMES: [&str; 32] = [
    "config.json",
    "a/config.json",
    "a/b/config.json",
    "original",
    "original/a/b.pth",
    "model.bin",
    "model-1.bin",
    "model-7.bin",
    "model[1].json",
    "x^y.json",
    "^.json",
    "q.json",
    "]q.json",
    "]",
    "].json",
    "-.json",
    "a.json",
    "e.json",
    "z-b.json",
    "_.json",
    ".hidden",
    "br{1}.json",
    "[.json",
    "[!",
    r"a\b",
    r"\.json",
    "!.json",
    "&.json",
    "config",
    "a/x/b",
    "ab",
    "",
];

const ANSWERS: [(&str, &[&str]); 47] = [
    (
        "*.json",
        &[
            "config.json",
            "a/config.json",
            "a/b/config.json",
            "model[1].json",
            "x^y.json",
            "^.json",
            "q.json",
            "]q.json",
            "].json",
            "-.json",
            "a.json",
            "e.json",
            "z-b.json",
            "_.json",
            "br{1}.json",
            "[.json",
            r"\.json",
            "!.json",
            "&.json",
        ],
    ),
    ("original/", &["original/a/b.pth"]),
    ("original/*", &["original/a/b.pth"]),
    ("Model.bin", &[]),
    ("model-?.bin", &["model-1.bin", "model-7.bin"]),
    ("model-[0-4].bin", &["model-1.bin"]),
    ("model-[!0-4].bin", &["model-7.bin"]),
    ("config", &["config"]),
    ("**/*.json", &["a/config.json", "a/b/config.json"]),
    ("**/config.json", &["a/config.json", "a/b/config.json"]),
    ("a/**", &["a/config.json", "a/b/config.json", "a/x/b"]),
    (
        "**",
        &[
            "config.json",
            "a/config.json",
            "a/b/config.json",
            "original",
            "original/a/b.pth",
            "model.bin",
            "model-1.bin",
            "model-7.bin",
            "model[1].json",
            "x^y.json",
            "^.json",
            "q.json",
            "]q.json",
            "]",
            "].json",
            "-.json",
            "a.json",
            "e.json",
            "z-b.json",
            "_.json",
            ".hidden",
            "br{1}.json",
            "[.json",
            "[!",
            r"a\b",
            r"\.json",
            "!.json",
            "&.json",
            "config",
            "a/x/b",
            "ab",
            "",
        ],
    ),
    ("[^q].json", &["^.json", "q.json"]),
    (
        "[!q].json",
        &[
            "^.json", "].json", "-.json", "a.json", "e.json", "_.json", "[.json", r"\.json", "!.json", "&.json",
        ],
    ),
    ("[^-b].json", &["^.json", "a.json", "_.json"]),
    ("*[1].json", &[]),
    ("model[[]1].json", &["model[1].json"]),
    ("a/**/config.json", &["a/b/config.json"]),
    (
        "*.js?n",
        &[
            "config.json",
            "a/config.json",
            "a/b/config.json",
            "model[1].json",
            "x^y.json",
            "^.json",
            "q.json",
            "]q.json",
            "].json",
            "-.json",
            "a.json",
            "e.json",
            "z-b.json",
            "_.json",
            "br{1}.json",
            "[.json",
            r"\.json",
            "!.json",
            "&.json",
        ],
    ),
    ("a?config.json", &["a/config.json"]),
    ("a/", &["a/config.json", "a/b/config.json", "a/x/b"]),
    ("[]q].json", &["q.json", "].json"]),
    (
        "[!]q].json",
        &[
            "^.json", "-.json", "a.json", "e.json", "_.json", "[.json", r"\.json", "!.json", "&.json",
        ],
    ),
    (".*", &[".hidden"]),
    ("*/", &["a/config.json", "a/b/config.json", "original/a/b.pth", "a/x/b"]),
    ("./config.json", &[]),
    (
        "a*",
        &["a/config.json", "a/b/config.json", "a.json", r"a\b", "a/x/b", "ab"],
    ),
    (
        "[a-c]*",
        &[
            "config.json",
            "a/config.json",
            "a/b/config.json",
            "a.json",
            "br{1}.json",
            r"a\b",
            "config",
            "a/x/b",
            "ab",
        ],
    ),
    (
        "**.json",
        &[
            "config.json",
            "a/config.json",
            "a/b/config.json",
            "model[1].json",
            "x^y.json",
            "^.json",
            "q.json",
            "]q.json",
            "].json",
            "-.json",
            "a.json",
            "e.json",
            "z-b.json",
            "_.json",
            "br{1}.json",
            "[.json",
            r"\.json",
            "!.json",
            "&.json",
        ],
    ),
    (
        "*/**",
        &["a/config.json", "a/b/config.json", "original/a/b.pth", "a/x/b"],
    ),
    ("**/a/*", &["original/a/b.pth"]),
    ("[.json", &["[.json"]),
    ("[!", &["[!"]),
    ("br{1}.json", &["br{1}.json"]),
    ("a/**/", &["a/b/config.json", "a/x/b"]),
    (
        "**/",
        &["a/config.json", "a/b/config.json", "original/a/b.pth", "a/x/b"],
    ),
    ("[z-a].json", &[]),
    ("[a-].json", &["-.json", "a.json"]),
    ("[-a].json", &["-.json", "a.json"]),
    ("[a-c-e].json", &["-.json", "a.json", "e.json"]),
    ("a**n", &["a/config.json", "a/b/config.json", "a.json"]),
    ("*a*b*", &["a/b/config.json", "original/a/b.pth", r"a\b", "a/x/b", "ab"]),
    (r"a\*", &[r"a\b"]),
    (
        "[!!].json",
        &[
            "^.json", "q.json", "].json", "-.json", "a.json", "e.json", "_.json", "[.json", r"\.json", "&.json",
        ],
    ),
    (r"[\].json", &[r"\.json"]),
    ("[&&q].json", &["q.json", "&.json"]),
    ("", &[""]),
];

#[test]
fn patterns_mean_what_the_hubs_users_expect() {
    for (pattern, expected) in ANSWERS {
        let patterns = Patterns::new([pattern]).unwrap();
        let found: Vec<&str> = NAMES.into_iter().filter(|name| patterns.matches(name)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn alternatives_are_an_extra() {
    let cases: [(&str, &[&str]); 4] = [
        ("*.{bin,json}", &["a.bin", "a.json"]),
        ("{a,b{c,d}}", &["a", "bc", "bd"]),
        ("{a}", &["{a}"]),
        ("{a,b", &["{a,b"]),
    ];
    for (pattern, expected) in cases {
        let patterns = Patterns::new([pattern]).unwrap();
        let names = ["a.bin", "a.json", "a.txt", "a", "b", "bc", "bd", "{a}", "{a,b"];
        let found: Vec<&str> = names.into_iter().filter(|name| patterns.matches(name)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
    let many = "{a,b}".repeat(20);
    let error = Patterns::new([&many]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{many}` stands for more than 1000 patterns")
    );
    assert!(!Patterns::default().matches("x"));
}

#[test]
fn a_pattern_of_many_stars_is_no_work() {
    let patterns = Patterns::new(["*a".repeat(50) + "b"]).unwrap();
    assert!(!patterns.matches(&"a".repeat(5000)));
}
