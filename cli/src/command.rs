//! One module for each command.

use crate::{
    arguments::{Arguments, Command, MatrixCommand},
    documents,
    fault::Answer,
};

mod explain;
mod facts;
mod lint;
mod pages;
pub(crate) mod render;
mod simulate;

/// Runs a command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Answer> {
    let Arguments {
        output,
        matrix,
        command,
    } = arguments;
    let load = || documents::load(matrix.as_deref());
    match command {
        Command::Explain(own) => explain::run(&own, &load()?, output),
        Command::WhyNot(own) => explain::why_not(&own, &load()?, output),
        Command::Simulate(own) => simulate::run(&own, &load()?, output),
        Command::Facts(own) => facts::run(&own, output),
        Command::Matrix(MatrixCommand::Lint(own)) => lint::run(&own, matrix.as_deref(), output),
        Command::Matrix(MatrixCommand::Render(own)) => render::run(&own, &load()?),
        Command::Completions(own) => pages::completions(own.shell),
        Command::Man => pages::man(),
    }
}
