//! Packs a model from a hub as an OCI artifact, every byte checked.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use model_packer::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Wrong input is the user's move, which is 1 here and 2 in clap.
        Err(error) => {
            let code = u8::from(error.use_stderr());
            // A message that cannot be printed has no reader.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    cli::start_log(&arguments);
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(cli::run(arguments)),
        Err(error) => {
            // A message that cannot be printed has no reader.
            let _ = writeln!(std::io::stderr(), "error: the runtime cannot be started: {error}");
            ExitCode::from(2)
        }
    }
}
