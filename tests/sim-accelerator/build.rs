//! Compiles the device plugin API with protox, so that no protoc is needed on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/deviceplugin.proto");
    let descriptors = protox::compile(["proto/deviceplugin.proto"], ["proto"])?;
    tonic_prost_build::configure().btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
