//! The definitions as an API server receives them.

use kube::ResourceExt as _;

#[test]
fn every_definition_reads_as_reviewed() {
    for definition in crds::all() {
        insta::assert_snapshot!(
            definition.name_any(),
            serde_saphyr::to_string(&definition).expect("serialises")
        );
    }
}
