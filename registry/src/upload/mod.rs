//! Sending a blob: not at all when it is there, by mount when a sibling has it, else in parts that the registry confirms.

mod body;
mod finish;
mod push;
mod recovery;
mod session;
mod source;

pub use push::{PushEvent, PushObserver, PushOptions, Pushed};
pub use session::SavedSession;
pub use source::{BlobSource, FileSource, SourceStream};
