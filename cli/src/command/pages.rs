//! Shell completions and the manual page.

use clap::CommandFactory as _;

use crate::{
    arguments::Arguments,
    fault::{Answer, Ours},
    output,
};

pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "plimsoll", &mut script);
    output::write(&String::from_utf8_lossy(&script))?;
    Ok(Answer::Yes)
}

pub(crate) fn man() -> anyhow::Result<Answer> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
    rendered.map_err(|error| Ours(format!("rendering the manual page: {error}")))?;
    output::write(&String::from_utf8_lossy(&page))?;
    Ok(Answer::Yes)
}
