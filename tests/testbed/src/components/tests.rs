use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("plimsoll-components-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn store(name: &str) -> (ComponentStore, PathBuf, PathBuf) {
    let root = folder(name);
    let (cache, prebuilt) = (root.join("cache"), root.join("prebuilt"));
    fs::create_dir_all(&prebuilt).unwrap();
    (
        ComponentStore::new(cache, Some(prebuilt.clone()), Reporter::silent()),
        root,
        prebuilt,
    )
}

fn offer(prebuilt: &Path, promised: &str) {
    let oras = Component::find("oras").unwrap();
    let archive = format!("oras-{}.xz", oras.version);
    fs::write(
        prebuilt.join("MANIFEST"),
        format!("oras\t{}\t{promised}\t3\tnothing\n", oras.version),
    )
    .unwrap();
    let plain = prebuilt.join(archive.trim_end_matches(".xz"));
    fs::write(&plain, "not oras").unwrap();
    assert!(std::process::Command::new("xz").arg(&plain).status().unwrap().success());
}

#[test]
fn pins_have_distinct_names_and_whole_digests() {
    for (index, component) in PINS.iter().enumerate() {
        assert!(
            PINS[index + 1..].iter().all(|other| other.name != component.name),
            "{} twice",
            component.name
        );
        let hexadecimal = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(component.prebuilt_sha256.is_none_or(hexadecimal), "{}", component.name);
        for file in source::recipe_files(component) {
            assert!(file.is_file(), "{} is missing", file.display());
        }
    }
}

#[test]
fn the_version_of_each_go_component_is_the_one_its_module_requires() {
    for component in PINS {
        if matches!(component.recipe, Recipe::Go { .. }) {
            let path = &source::recipe_files(component)[0];
            let text = fs::read_to_string(path).unwrap();
            let wanted = format!(" v{}", component.version);
            assert!(
                text.lines().any(|line| line.contains(&wanted)),
                "{} does not require {wanted}",
                path.display()
            );
        }
    }
}

#[test]
fn a_prebuilt_component_with_another_digest_is_refused_by_name() {
    let pinned = Component::find("oras").unwrap().prebuilt_sha256.unwrap();
    for promised in [pinned, "0000"] {
        let (store, root, prebuilt) = store(&format!("mismatch-{}", promised.len()));
        offer(&prebuilt, promised);
        let error = store.ensure("oras").unwrap_err();
        assert!(
            matches!(&error, Error::PrebuiltMismatch { name, .. } if name == "oras"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("PLIMSOLL_PREBUILT"));
        assert_eq!(
            store.origin("oras").unwrap(),
            Origin::Prebuilt,
            "nothing wrong was cached"
        );
        fs::remove_dir_all(root).unwrap();
    }
}

#[test]
fn a_prebuilt_component_of_another_version_is_not_offered() {
    let (store, root, prebuilt) = store("version");
    fs::write(prebuilt.join("MANIFEST"), "oras\t0.0.1\tabc\n").unwrap();
    fs::write(prebuilt.join("oras-0.0.1.xz"), "").unwrap();
    assert_eq!(store.origin("oras").unwrap(), Origin::Source);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_component_in_the_cache_is_taken_as_it_is() {
    let (store, root, _) = store("cached");
    let program = store.program(Component::find("helm").unwrap());
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, "helm").unwrap();
    assert_eq!(store.origin("helm").unwrap(), Origin::Cache);
    assert_eq!(store.ensure("helm").unwrap(), program);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_unknown_component_is_named() {
    let (store, root, _) = store("unknown");
    let message = store.ensure("kubelett").unwrap_err().to_string();
    assert_eq!(message, "no component is called kubelett");
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn only_source_builds_of_one_module_wait_for_each_other() {
    let (store, root, prebuilt) = store("groups");
    let names = ["etcd", "kube-apiserver", "oras", "kubelet", "kubectl", "helm"];
    let source = store.groups(&names).unwrap();
    assert_eq!(
        source,
        [
            vec!["etcd"],
            vec!["kube-apiserver", "kubelet", "kubectl"],
            vec!["oras"],
            vec!["helm"]
        ]
    );
    let kubelet = Component::find("kubelet").unwrap();
    fs::write(
        prebuilt.join("MANIFEST"),
        format!("kubelet\t{}\tabc\n", kubelet.version),
    )
    .unwrap();
    fs::write(prebuilt.join(format!("kubelet-{}.xz", kubelet.version)), "").unwrap();
    let mixed = store.groups(&names[1..5]).unwrap();
    assert_eq!(
        mixed,
        [vec!["kube-apiserver", "kubectl"], vec!["oras"], vec!["kubelet"]]
    );
    fs::remove_dir_all(root).unwrap();
}
