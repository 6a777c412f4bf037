//! The plimsoll command: explain, why-not, simulate and matrix tools, all offline.

use std::process::ExitCode;

use clap::Parser as _;

mod arguments;
mod cluster;
mod command;
mod deployment;
mod documents;
mod fault;
mod model;
mod output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Printing the usage is all that can be done here; a closed pipe changes nothing about that.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(1)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match command::run(arguments) {
        Ok(answer) => answer.code(),
        Err(error) => fault::report(&error),
    }
}
