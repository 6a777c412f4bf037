//! One module for each command.

use crate::{
    arguments::{Arguments, Command, MatrixCommand},
    documents,
    fault::Answer,
};

mod blast_radius;
mod coverage;
mod diff;
mod explain;
mod facts;
mod lint;
mod mirror_list;
mod pages;
pub(crate) mod render;
mod requirements;
mod simulate;
mod site;

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
        Command::Matrix(MatrixCommand::Diff(own)) => diff::run(&own, output),
        Command::Matrix(MatrixCommand::Coverage(own)) => coverage::run(&own, &load()?, output),
        Command::Matrix(MatrixCommand::MirrorList(own)) => mirror_list::run(&own, &load()?, output),
        Command::Matrix(MatrixCommand::Requirements(own)) => requirements::run(&own, &load()?, output),
        Command::Matrix(MatrixCommand::Render(own)) => render::run(&own, &load()?, output),
        Command::Matrix(MatrixCommand::Site(own)) => site::run(&own, &load()?),
        Command::BlastRadius(own) => blast_radius::run(&own, output),
        Command::Completions(own) => pages::completions(own.shell),
        Command::Man => pages::man(),
    }
}
