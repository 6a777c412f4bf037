//! Work done several pieces at a time whose results come in order.

use futures::{Stream, StreamExt as _};
use tokio_util::task::AbortOnDropHandle;

/// The results of these, in their order. Each runs as a task of its own, so many at the same time; they end with the stream.
pub(crate) fn in_order<Task, Done, Failed>(
    tasks: impl Iterator<Item = Task> + Send,
    at_once: usize,
) -> impl Stream<Item = Result<Done, Failed>> + Send
where
    Task: Future<Output = Result<Done, Failed>> + Send + 'static,
    Done: Send + 'static,
    Failed: Send + 'static,
{
    let tasks = tasks.map(|task| AbortOnDropHandle::new(tokio::spawn(task)));
    futures::stream::iter(tasks)
        .buffered(at_once.max(1))
        // Nobody stops them while somebody waits, so one without a result has panicked; the panic goes on here.
        .map(|ended| ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}
