//! A stand-in for a vendor's engine image.
//!
//! It takes the command line that the image's real engine would get, answers health, the model list and metrics
//! about its own requests, and says plainly that it owns no model when it is asked to generate.

pub mod arguments;
pub mod requests;
pub mod server;

pub use arguments::{Arguments, ArgumentsError};
pub use server::router;
