//! Work done several pieces at a time whose results come in order.

use futures::{Stream, StreamExt as _};
use tokio_util::task::AbortOnDropHandle;

/// The results of these, in their order. The next one is taken when there is room for it. Each runs as a task of its own, so many at the same time; they end with the stream.
pub(crate) fn in_order<Task, Done, Failed>(
    tasks: impl Stream<Item = Task> + Send,
    at_once: usize,
) -> impl Stream<Item = Result<Done, Failed>> + Send
where
    Task: Future<Output = Result<Done, Failed>> + Send + 'static,
    Done: Send + 'static,
    Failed: Send + 'static,
{
    tasks
        .map(|task| AbortOnDropHandle::new(tokio::spawn(task)))
        .buffered(at_once.max(1))
        // Nobody stops them while somebody waits, so one without a result has panicked; the panic goes on here.
        .map(|ended| ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}
