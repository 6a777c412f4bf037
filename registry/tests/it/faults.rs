//! Random faults: whatever happens, a blob in the registry is right, and bytes that reach the caller are those of the answer.

use fault_proxy::registry::{FakeRegistry, sha256};
use fault_proxy::{Fault, FaultRule};
use proptest::prelude::*;
use registry::Pushed;

use super::*;

fn fault() -> impl Strategy<Value = Fault> {
    let code = prop::sample::select(vec![400_u16, 401, 403, 404, 408, 413, 416, 429, 500, 502, 503, 504]);
    prop_oneof![
        code.prop_map(|code| Fault::Status {
            code,
            headers: Vec::new(),
            body: String::new()
        }),
        (0_u64..5000).prop_map(|after| Fault::CutUpload { after }),
        (0_u64..5000).prop_map(|after| Fault::Cut { after }),
        Just(Fault::LostAnswer),
        prop::sample::select(vec![200_u16, 201, 202, 204]).prop_map(|code| Fault::StatusAs { code }),
        prop::sample::select(vec!["location", "range", "docker-content-digest"])
            .prop_map(|name| Fault::DropHeader { name: name.to_owned() }),
    ]
}

fn rule() -> impl Strategy<Value = FaultRule> {
    let method = prop::sample::select(vec!["HEAD", "GET", "POST", "PATCH", "PUT"]);
    (method, fault(), 0_u32..6, 1_u32..4)
        .prop_map(|(method, fault, skip, times)| FaultRule::once(method, "/", fault).after(skip).times(times))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn an_upload_says_yes_only_when_the_registry_has_the_blob(rules in prop::collection::vec(rule(), 0..5), one in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let registry = FakeRegistry::open().await.unwrap();
            rules.iter().cloned().for_each(|rule| registry.inject(rule));
            let blob = bytes(20_000);
            let digest = sha256(&blob);
            let options = if one { one_put() } else { parts(3000) };
            let target = reference(&registry, "team/model");
            let pushed = client(&registry).push_blob(&target, &digest, blob.len() as u64, &blob, &options).await;
            let there = registry.blob("team/model", &digest);
            match pushed {
                // A server that claims a status it does not mean is believed about HEAD only.
                Ok(Pushed::Existed) => {}
                Ok(_) => prop_assert_eq!(there, Some(blob)),
                Err(_) => prop_assert!(there.is_none_or(|found| found == blob)),
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_download_is_the_blob_or_an_error(rules in prop::collection::vec(rule(), 0..5), start in 0_u64..19_000, length in 1_u64..1000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let registry = FakeRegistry::open().await.unwrap();
            let blob = bytes(20_000);
            let digest = registry.add_blob("team/model", blob.clone());
            rules.iter().cloned().for_each(|rule| registry.inject(rule));
            let model = reference(&registry, "team/model");
            let client = client(&registry);
            if let Ok(mut stream) = client.open_blob(&model, &digest, Some(start..start + length)).await {
                let served = stream.served().clone();
                let mut all = Vec::new();
                while let Some(Ok(chunk)) = stream.next().await {
                    all.extend_from_slice(&chunk);
                }
                let at = usize::try_from(served.start).unwrap();
                prop_assert!(served.start == start || served.start == 0);
                prop_assert!(all.is_empty() || blob[at..].starts_with(&all));
            }
            Ok(())
        })?;
    }
}
