//! Compiles the two small protocols of the kubelet, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["csi.proto", "pluginregistration.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(true)
        .compile_fds(descriptors)?;
    Ok(())
}
